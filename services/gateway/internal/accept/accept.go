// Package accept takes requests: steps 2 to 5 of ARCHITECTURE.md. It decides, by what is first on the bus and by nothing
// else, whether a request is new or a retry, whether its thread is free or how many wait there, and who resolves an action.
//
// Each step may be repeated: whoever meets a request that was accepted only halfway goes on from there.
package accept

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"slices"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/query"
	"github.com/agentbus/agentbus/pkg/state"
	"github.com/agentbus/agentbus/services/gateway/internal/access"
	"github.com/go-json-experiment/json/jsontext"
)

// attempts is how often a request tries to become its thread's next one before it is told that the thread is busy.
const attempts = 3

// Desk takes requests. It is safe for concurrent use.
type Desk struct {
	bus     *bus.Bus
	history query.Client
	state   *state.Store
	guard   *access.Guard
	log     *slog.Logger
	room    room
}

// NewDesk returns a desk.
func NewDesk(b *bus.Bus, history query.Client, s *state.Store, guard *access.Guard, log *slog.Logger) *Desk {
	return &Desk{bus: b, history: history, state: s, guard: guard, log: log}
}

// Watch keeps the desk informed of the room that the streams have, until ctx is done.
func (d *Desk) Watch(ctx context.Context) { d.room.watch(ctx, d.bus.Fullness, d.log) }

// Room reports why no new requests are taken: the streams are nearly full. nil while they have room.
func (d *Desk) Room() error { return d.room.check() }

// Call is a request that somebody wants to make.
type Call struct {
	Principal auth.Principal
	AgentID   string // an agent that exists
	Request   event.AgentRequest
	Route     string // under which earlier versions counted Key
	Key       string // the Idempotency-Key; "" = none. It is the principal's, whatever the route
	BodyHash  string // see Hash
	OnBusy    string // what to do while something runs on the thread, as config.Agent says; "" = config.OnBusyReject
	Queue     int    // how many requests may wait on the thread, with config.OnBusyQueue
	Refusal   error  // of a new request; a retry of one that was accepted before is answered all the same
}

// Ticket is a request that was taken.
type Ticket struct {
	RequestID string
	ThreadID  string
	AgentID   string
	Replayed  bool // the key was used before: this is the request that it made then
	Past      bool // the bus has forgotten that; history knows it
	Index     int  // on its thread, with Past
}

// Hash tells whether two calls with one key are the same call. Spaces and the order of members do not matter.
func Hash(agentID string, body []byte) string {
	canonical := jsontext.Value(body).Clone()
	if err := canonical.Canonicalize(); err != nil {
		canonical = body // no JSON: then every byte counts
	}
	h := sha256.New()
	h.Write([]byte(agentID + "\x00"))
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil))
}

// Accept takes a request, so that it will run, or says why not: fault.ThreadNotFound, ThreadAccessDenied, ThreadBusy
// (with the running request), InvalidActionID, IdempotencyMismatch, MessageTooLarge, Unavailable. After Unavailable the
// request may have been taken; with a key the same call may be made again.
func (d *Desk) Accept(ctx context.Context, c Call) (Ticket, error) {
	a := d.record(c)
	replayed := false
	if c.Key != "" {
		earlier, found, err := d.earlier(ctx, c, a)
		if err != nil {
			return Ticket{}, err
		}
		if found {
			a, replayed = earlier, true
		} else if past, known, err := d.past(ctx, c, a); err != nil || known {
			return past, err
		}
	}
	var large [][]byte
	if !replayed && c.Refusal != nil {
		return Ticket{}, c.Refusal
	}
	if !replayed {
		var err error
		if a, large, err = measured(a); err != nil {
			return Ticket{}, access.Unavailable(err)
		}
	}
	if c.Key == "" && c.Request.ThreadID == "" {
		if err := d.begin(ctx, a, large); err != nil {
			return Ticket{}, access.Unavailable(err)
		}
		return Ticket{RequestID: a.RequestID, ThreadID: a.ThreadID, AgentID: a.AgentID}, nil
	}
	a, again, err := d.take(ctx, c, a, large, replayed)
	if err != nil {
		return Ticket{}, access.Unavailable(err)
	}
	return Ticket{RequestID: a.RequestID, ThreadID: a.ThreadID, AgentID: a.AgentID, Replayed: replayed || again}, nil
}

// measured gives a the form in which it is recorded, and the data to upload before that. It refuses a request that cannot
// be stored, its record and the start of its log, before anything is written.
func measured(a command.Accepted) (command.Accepted, [][]byte, error) {
	messages, large, err := shelve(a.Request.Messages)
	if err != nil {
		return a, nil, err
	}
	a.Request.Messages = messages
	return a, large, bus.CheckAccepted(a)
}

// begin takes a request that starts a thread and has no key. No other call can have its ids, so nothing needs to be looked
// up. The request's record comes before the thread's: a thread must not show a request that was never accepted.
func (d *Desk) begin(ctx context.Context, a command.Accepted, large [][]byte) error {
	if _, err := d.admit(ctx, Call{}, bus.ThreadRecord{}, a); err != nil {
		return err
	}
	a, _, err := d.write(ctx, a, large, false)
	if err != nil {
		return err
	}
	first, err := d.bus.AdvanceThread(ctx, a.Tenant, d.next(bus.ThreadRecord{}, a, 0), 0)
	if err != nil {
		return err
	}
	return d.bus.Start(ctx, a, first.Index)
}

// record gives the call its ids. With a key they derive from it, so that a retry has the same.
func (d *Desk) record(c Call) command.Accepted {
	a := command.Accepted{
		Tenant: c.Principal.Tenant, Owner: c.Principal.Subject, AgentID: c.AgentID,
		Request: c.Request, BodyHash: c.BodyHash, ThreadID: c.Request.ThreadID, At: d.bus.Now().UTC(),
	}
	if c.Key == "" {
		a.RequestID = id.New(id.Request)
	} else {
		a.RequestID = id.Derive(id.Request, a.Tenant, a.Owner, c.Key)
	}
	if a.ThreadID == "" && c.Key == "" {
		a.ThreadID = id.New(id.Thread)
	} else if a.ThreadID == "" {
		a.ThreadID = id.Derive(id.Thread, a.Tenant, a.Owner, c.Key)
	}
	return a
}

// take makes a its thread's next request and sees to it that it runs. Accepted says that a's record stands already.
// It returns the record that stands, and whether somebody else with the same key wrote it.
func (d *Desk) take(
	ctx context.Context, c Call, a command.Accepted, large [][]byte, accepted bool,
) (command.Accepted, bool, error) {
	again := false
	for range attempts + c.Queue { // each time that somebody else was faster, one more waits
		thread, err := d.thread(ctx, c.Principal, a)
		if err != nil {
			return a, again, err
		}
		if accepted {
			if placed, err := d.resume(ctx, thread, a); err != nil || placed {
				return a, again, err
			}
		}
		behind, err := d.admit(ctx, c, thread, a)
		if err != nil {
			return d.refuse(ctx, c, a, err)
		}
		if !accepted {
			accepted = true
			if a, again, err = d.write(ctx, a, large, c.Key != ""); err != nil {
				return a, again, err
			}
			if again {
				continue // from where the other one stands
			}
		}
		mine, err := d.bus.AdvanceThread(ctx, a.Tenant, d.next(thread, a, behind), thread.Sequence)
		if err == nil {
			return a, again, d.start(ctx, a, mine)
		}
		if !errors.Is(err, bus.ErrConflict) {
			return a, again, err
		}
	}
	return d.refuse(ctx, c, a, fault.New(fault.ThreadBusy, "many requests come in on this thread at once; try again"))
}

// refuse says no to a, unless the same call has got its place on the thread meanwhile, by another gateway or by an attempt
// whose answer was lost: then it is in nobody's way but its own.
func (d *Desk) refuse(ctx context.Context, c Call, a command.Accepted, refusal error) (command.Accepted, bool, error) {
	stored, found, err := d.earlier(ctx, c, a)
	if err != nil {
		return a, false, err
	}
	if !found {
		return a, false, refusal
	}
	thread, err := d.thread(ctx, c.Principal, stored)
	if err != nil {
		return stored, true, err
	}
	placed, err := d.resume(ctx, thread, stored)
	if err == nil && !placed {
		err = refusal
	}
	return stored, true, err
}

// thread returns the newest record of a's thread: a zero one when a starts it.
func (d *Desk) thread(ctx context.Context, p auth.Principal, a command.Accepted) (bus.ThreadRecord, error) {
	if a.Request.ThreadID != "" {
		return d.guard.Thread(ctx, p, a.ThreadID)
	}
	t, err := d.bus.Thread(ctx, a.Tenant, a.ThreadID)
	if errors.Is(err, bus.ErrNotFound) {
		return bus.ThreadRecord{}, nil
	}
	if err == nil && t.Deleted {
		err = fault.New(fault.ThreadNotFound, "the thread that this Idempotency-Key made is deleted")
	}
	return t, err
}

// write stores the data that is too large for the record, and then the record. Of two calls with one key
// the first wins, and the other becomes its retry.
func (d *Desk) write(ctx context.Context, a command.Accepted, large [][]byte, keyed bool) (command.Accepted, bool, error) {
	if err := d.upload(ctx, a.Tenant, a.ThreadID, large); err != nil {
		return a, false, err
	}
	stored, first, err := d.bus.Accept(ctx, a)
	if err != nil {
		return a, false, err
	}
	if stored.BodyHash != a.BodyHash {
		return a, false, mismatch()
	}
	if !keyed {
		return stored, !first, nil
	}
	if err := d.state.Remember(ctx, a.Tenant, a.RequestID, stored.BodyHash); err != nil {
		d.log.DebugContext(ctx, "idempotency key is not cached", "error", err)
	}
	return stored, !first, nil
}

// next is a's record behind thread. See command.Thread for behind.
func (d *Desk) next(thread bus.ThreadRecord, a command.Accepted, behind int) command.Thread {
	t := command.Thread{
		ThreadID: a.ThreadID, Owner: a.Owner, AgentID: a.AgentID, RequestID: a.RequestID, At: d.bus.Now().UTC(),
		Behind: behind, Resolves: actionIDs(a.Request),
	}
	if thread.ThreadID != "" {
		t.Index = thread.Index + 1
	}
	return t
}

func actionIDs(r event.AgentRequest) []string {
	ids := make([]string, 0, len(r.Context.ActionResults))
	for _, result := range r.Context.ActionResults {
		ids = append(ids, result.ActionID)
	}
	return slices.Clip(ids)
}

func logOf(a command.Accepted) bus.LogID {
	return bus.LogID{Tenant: a.Tenant, RequestID: a.RequestID}
}
