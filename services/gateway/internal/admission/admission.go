// Package admission accepts requests: steps 2 to 5 of ARCHITECTURE.md. The first record on the bus alone decides
// whether a request is new or a retry, whether its thread is free or how many requests wait there, and which request
// resolves an action.
//
// Every step may be repeated: a retry of a request that was accepted only in part continues where the first attempt
// stopped.
package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/threadqueue"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/go-json-experiment/json/jsontext"
)

// attempts is how often a request tries to become its thread's next one before it is refused with thread_busy.
const attempts = 3

// Acceptor accepts requests. It is safe for concurrent use.
type Acceptor struct {
	bus          *bus.Bus
	queue        *threadqueue.Queue
	history      historyapi.Client
	state        *rediscache.Store
	guard        *authz.Guard
	log          *slog.Logger
	backpressure backpressure
}

// New returns an acceptor.
func New(b *bus.Bus, history historyapi.Client, s *rediscache.Store, guard *authz.Guard, log *slog.Logger) *Acceptor {
	return &Acceptor{bus: b, queue: threadqueue.New(b, b.Now), history: history, state: s, guard: guard, log: log}
}

// Watch updates the fullness of the streams until ctx is done.
func (d *Acceptor) Watch(ctx context.Context) { d.backpressure.watch(ctx, d.bus.Fullness, d.log) }

// Backpressure returns why no new requests are accepted, or nil. They are refused while the streams are nearly full.
func (d *Acceptor) Backpressure() error { return d.backpressure.check() }

// Call is a request to accept.
type Call struct {
	Principal auth.Principal
	AgentID   string // an existing agent
	Request   event.AgentRequest
	Route     string // the route, with which earlier versions derived ids from Key
	Key       string // the Idempotency-Key, which belongs to the principal and not to the route; "" = none
	BodyHash  string // see Hash
	OnBusy    string // what to do if a request runs on the thread, see config.Agent; "" = config.OnBusyReject
	Queue     int    // how many requests may wait on the thread, with config.OnBusyQueue
	Refusal   error  // the error for a new request; a retry of an accepted request succeeds all the same

	// CreateThread lets the client choose the id of a new thread: if the thread of the request does not exist, the request
	// creates it. Otherwise the request is refused with apierr.ThreadNotFound.
	CreateThread bool

	// Members of record.Accepted that only some protocols set.
	System   string
	Metadata json.RawMessage

	// Conversation is the client's whole conversation, in place of new messages; see [Acceptor.resolve]. nil = none.
	Conversation []event.HistoryMessage
	Repeat       bool // send the last message of the user again, if Conversation brings nothing new
}

// Receipt identifies an accepted request.
type Receipt struct {
	RequestID string
	ThreadID  string
	AgentID   string
	Replayed  bool // the key was used before, and this is the request that was accepted then
	Archived  bool // the request has expired from the bus and is in history
	Index     int  // index on its thread, set with Archived
}

// Hash returns the hash of a call. Two calls with one key must have the same hash. White space and the order of members
// do not count.
func Hash(agentID string, body []byte) string {
	canonical := jsontext.Value(body).Clone()
	if err := canonical.Canonicalize(); err != nil {
		canonical = body // not JSON: every byte counts
	}
	h := sha256.New()
	h.Write([]byte(agentID + "\x00"))
	h.Write(canonical)
	return hex.EncodeToString(h.Sum(nil))
}

// Accept accepts a request, so that it will run, or returns apierr.ThreadNotFound, ThreadAccessDenied, ThreadBusy (with
// the running request), InvalidActionID, IdempotencyMismatch, MessageTooLarge or Unavailable. After Unavailable the
// request may have been accepted; with a key the call can be repeated safely.
func (d *Acceptor) Accept(ctx context.Context, c Call) (Receipt, error) {
	a := d.record(c)
	replayed := false
	if c.Key != "" {
		earlier, found, err := d.storedByKey(ctx, c, a)
		if err != nil {
			return Receipt{}, err
		}
		if found {
			a, replayed = earlier, true
		} else if past, known, err := d.archivedByKey(ctx, c, a); err != nil || known {
			return past, err
		}
	}
	var large [][]byte
	if !replayed && c.Refusal != nil {
		return Receipt{}, c.Refusal
	}
	if !replayed && c.Conversation != nil {
		var err error
		if a, err = d.resolve(ctx, c, a); err != nil {
			return Receipt{}, err
		}
	}
	if !replayed {
		var err error
		if a, large, err = measured(a); err != nil {
			return Receipt{}, authz.Unavailable(err)
		}
	}
	if c.Key == "" && c.Request.ThreadID == "" {
		if err := d.acceptNewThread(ctx, a, large); err != nil {
			return Receipt{}, authz.Unavailable(err)
		}
		return Receipt{RequestID: a.RequestID, ThreadID: a.ThreadID, AgentID: a.AgentID}, nil
	}
	a, again, err := d.queue.Put(ctx, admission{d, c, large}, a, replayed, attempts+c.Queue)
	switch {
	case errors.Is(err, record.ErrConflict):
		return Receipt{}, apierr.New(apierr.ThreadBusy, "many requests come in on this thread at once; try again")
	case err != nil:
		return Receipt{}, authz.Unavailable(err)
	}
	return Receipt{RequestID: a.RequestID, ThreadID: a.ThreadID, AgentID: a.AgentID, Replayed: replayed || again}, nil
}

// measured returns a in the form in which it is recorded, and the data to upload before that. It returns an error if
// the record or the start of the log would be too large. It writes nothing.
func measured(a record.Accepted) (record.Accepted, [][]byte, error) {
	large, err := offloadMedia(&a.Request.Messages, &a.History)
	if err != nil {
		return a, nil, err
	}
	return a, large, bus.CheckAccepted(a)
}

// acceptNewThread accepts a request that starts a thread and has no key. No other call can have its ids, so no lookup
// is needed. The accept record precedes the thread record: a thread must not name a request that was not accepted.
func (d *Acceptor) acceptNewThread(ctx context.Context, a record.Accepted, large [][]byte) error {
	if _, err := d.admit(ctx, Call{}, bus.ThreadRecord{}, nil, a); err != nil {
		return err
	}
	a, _, err := d.write(ctx, a, large, false)
	if err != nil {
		return err
	}
	return d.queue.Append(ctx, bus.ThreadRecord{}, a, 0)
}

// record returns the accept record of a call. With a key its ids derive from the key, so that a retry gets the same
// ids.
func (d *Acceptor) record(c Call) record.Accepted {
	a := record.Accepted{
		Tenant: c.Principal.Tenant, Owner: c.Principal.Subject, AgentID: c.AgentID,
		Request: c.Request, BodyHash: c.BodyHash, ThreadID: c.Request.ThreadID, At: d.bus.Now().UTC(),
		System: c.System, Note: c.Metadata,
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

// admission implements threadqueue.Admission for one call.
type admission struct {
	acceptor *Acceptor
	call     Call
	large    [][]byte // to upload before the accept record is written
}

// Thread implements threadqueue.Admission.
func (m admission) Thread(ctx context.Context, a record.Accepted) (bus.ThreadRecord, error) {
	return m.acceptor.thread(ctx, m.call, a)
}

// Admit implements threadqueue.Admission.
func (m admission) Admit(
	ctx context.Context, newest bus.ThreadRecord, entries []threadqueue.Entry, a record.Accepted,
) (behind int, err error) {
	return m.acceptor.admit(ctx, m.call, newest, entries, a)
}

// Record implements threadqueue.Admission.
func (m admission) Record(ctx context.Context, a record.Accepted) (stored record.Accepted, again bool, err error) {
	return m.acceptor.write(ctx, a, m.large, m.call.Key != "")
}

// Recorded implements threadqueue.Admission.
func (m admission) Recorded(ctx context.Context, a record.Accepted) (stored record.Accepted, found bool, err error) {
	return m.acceptor.storedByKey(ctx, m.call, a)
}

// thread returns the newest record of a's thread, or a zero record if a starts it.
func (d *Acceptor) thread(ctx context.Context, c Call, a record.Accepted) (bus.ThreadRecord, error) {
	if a.Request.ThreadID == "" {
		t, err := d.bus.Thread(ctx, a.Tenant, a.ThreadID)
		if errors.Is(err, bus.ErrNotFound) {
			return bus.ThreadRecord{}, nil
		}
		if err == nil && t.Deleted {
			err = apierr.New(apierr.ThreadNotFound, "the thread that this Idempotency-Key made is deleted")
		}
		return t, err
	}
	t, err := d.guard.Thread(ctx, c.Principal, a.ThreadID)
	if c.CreateThread && apierr.CodeOf(err) == apierr.ThreadNotFound && creatable(a.ThreadID) {
		return d.create(ctx, c.Principal, a, err)
	}
	return t, err
}

// creatable reports whether a client may choose the id for a new thread. Ids of subagents' threads are reserved.
func creatable(threadID string) bool {
	return id.Valid(threadID) && !strings.HasPrefix(threadID, id.Subthread+"_")
}

// create returns a zero record for a to start its thread, unless the thread is deleted (notFound) or another request has
// created it since the guard found none.
func (d *Acceptor) create(ctx context.Context, p auth.Principal, a record.Accepted, notFound error) (bus.ThreadRecord, error) {
	t, err := d.bus.Thread(ctx, a.Tenant, a.ThreadID)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return bus.ThreadRecord{}, nil
	case err != nil:
		return bus.ThreadRecord{}, err
	case t.Deleted:
		return bus.ThreadRecord{}, notFound
	}
	return d.guard.Thread(ctx, p, a.ThreadID)
}

// write stores the data that is too large for the record, and then the record. Of two calls with one key
// the first wins, and the other becomes its retry.
func (d *Acceptor) write(ctx context.Context, a record.Accepted, large [][]byte, keyed bool) (record.Accepted, bool, error) {
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
