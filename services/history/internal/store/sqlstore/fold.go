package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/go-json-experiment/json"
)

// titleRunes is how much of the first message becomes a thread's title.
const titleRunes = 80

// request is a row of requests, without the input.
type request struct {
	key                      Key
	threadID, agentID, owner string
	index                    int
	accepted                 bool
	title                    string
	status                   historyapi.Status
	next                     uint64
	incarnation              string
	created, ended           int64
	deleted, dirty           bool
	counted                  string // the owner for whom its stored bytes are counted
	held                     bool   // something of it is stored
}

func newRequest(k Key) *request { return &request{key: k, index: -1, status: historyapi.StatusQueued} }

// thread is a row of threads.
type thread struct {
	key              Key
	owner, agentID   string
	title            string
	titleIndex, last int
	lastRequestID    string
	session          string // the newest record.Session as JSON; "" = nothing is noted
	created, updated int64
	deleted, dirty   bool
	counted          noted // as stored
}

// noted is how many bytes are noted on an owner's thread.
type noted struct {
	owner string
	bytes int
}

func newThread(k Key) *thread { return &thread{key: k, titleIndex: -1, last: -1} }

// input is what a request came with.
type input struct{ messages, bodyHash string }

// fold applies entries in memory and keeps the changes that the transaction will write. The touched rows must be
// loaded. It is independent of SQL and context.
type fold struct {
	requests map[Key]*request
	threads  map[Key]*thread
	rows     []row
	inputs   map[Key]input
	purged   []Key // threads deleted by this batch
	cuts     []store.Cut
	// stored returns the stored row that contains an event; no events without one.
	stored func(request Key, n uint64) (event.Frame, error)
}

// entry takes one entry in. Errors other than the store's own concern the database and end the batch.
func (f *fold) entry(e store.Entry) error {
	switch {
	case e.Accepted != nil:
		return f.accept(f.requests[Key{e.Tenant, e.RequestID}], *e.Accepted)
	case e.Thread != nil:
		return f.record(f.threads[Key{e.Tenant, e.ThreadID}], *e.Thread, e.Time)
	case e.Session != nil:
		return f.note(f.threads[Key{e.Tenant, e.ThreadID}], *e.Session)
	case e.Frame != nil:
		return f.frame(f.requests[Key{e.Tenant, e.RequestID}], *e.Frame, e.Forgotten)
	default:
		return nil
	}
}

func (f *fold) accept(r *request, a record.Accepted) error {
	if r.deleted || r.accepted {
		return nil
	}
	messages, err := json.Marshal(a.Request.Messages)
	if err != nil {
		return fmt.Errorf("%w: encode messages of request %s: %w", store.ErrStale, r.key.ID, err)
	}
	f.inputs[r.key] = input{string(messages), a.BodyHash}
	r.accepted, r.dirty = true, true
	r.threadID, r.agentID, r.owner = a.ThreadID, a.AgentID, a.Owner
	r.title = title(a.Request.Messages)
	r.created = micros(a.At)
	f.settle(r)
	return nil
}

// record takes in a record of a thread. It refuses one that would move a request that has ended to another place.
func (f *fold) record(t *thread, c record.Thread, stored time.Time) error {
	if t.deleted {
		return nil
	}
	if c.At.IsZero() {
		c.At = stored
	}
	if c.Deleted {
		f.remove(t, c.At)
		return nil
	}
	r := f.requests[Key{t.key.Tenant, c.RequestID}]
	if r != nil && r.ended != 0 && r.index >= 0 && r.index != c.Index {
		return fmt.Errorf("%w: request %s has ended with index %d, and comes again with %d", store.ErrStale, r.key.ID, r.index, c.Index)
	}
	t.dirty = true
	t.created = earlier(t.created, micros(c.At))
	t.updated = max(t.updated, micros(c.At))
	t.owner = c.Owner
	if c.Index > t.last {
		t.last, t.lastRequestID, t.agentID = c.Index, c.RequestID, c.AgentID
	}
	if r == nil || r.deleted {
		return nil
	}
	r.threadID, r.index, r.dirty = c.ThreadID, c.Index, true
	if !r.accepted {
		r.agentID, r.owner, r.created = c.AgentID, c.Owner, micros(c.At)
	}
	f.settle(r)
	return nil
}

// note takes in what is noted on a thread. The newest record counts, in whatever order they come.
func (f *fold) note(t *thread, s record.Session) error {
	if t.deleted {
		return nil
	}
	if s.Deleted {
		f.remove(t, s.UpdatedAt)
		return nil
	}
	t.created, t.dirty = earlier(t.created, micros(s.CreatedAt)), true
	t.updated = max(t.updated, micros(s.UpdatedAt))
	if t.session != "" {
		var held record.Session
		if err := json.Unmarshal([]byte(t.session), &held); err != nil {
			return fmt.Errorf("session of thread %s: %w", t.key.ID, err)
		}
		if !s.UpdatedAt.After(held.UpdatedAt) {
			return nil
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("%w: encode session of thread %s: %w", store.ErrStale, t.key.ID, err)
	}
	t.session = string(text)
	if t.last < 0 { // else its requests say it
		t.owner, t.agentID = s.Owner, s.AgentID
	}
	return nil
}

// remove leaves a tombstone of a thread.
func (f *fold) remove(t *thread, at time.Time) {
	*t = thread{key: t.key, titleIndex: -1, last: -1, updated: micros(at), deleted: true, dirty: true, counted: t.counted}
	f.purged = append(f.purged, t.key)
}

func (f *fold) frame(r *request, fr event.Frame, forgotten bool) error {
	if r.deleted || len(fr.Names) == 0 {
		return nil
	}
	if fr.First < r.next {
		var err error
		if fr, err = f.overlap(r, fr); err != nil {
			return err
		}
	}
	switch {
	case len(fr.Names) == 0:
		return nil
	case r.ended != 0:
		return fmt.Errorf("%w: event %d of request %s comes after its terminal event", store.ErrStale, fr.First, r.key.ID)
	case fr.First > r.next && !forgotten:
		return &store.Hole{RequestID: r.key.ID, Next: r.next, Came: fr.First}
	}
	return f.append(r, fr)
}

// overlap returns the new part of a frame that starts within the stored events: the events after them if it repeats
// them. Otherwise the stream was restored to an earlier state and another runner continued from there, so all of it is
// new.
func (f *fold) overlap(r *request, fr event.Frame) (event.Frame, error) {
	if fr.Incarnation == r.incarnation {
		return fr.From(r.next), nil
	}
	held, err := f.held(r, fr.First)
	if err != nil {
		return fr, err
	}
	if held.part.Incarnation == fr.Incarnation {
		return fr.From(r.next), nil
	}
	if r.ended == 0 {
		f.cut(r, fr, held)
	}
	return fr, nil
}

// held returns the row that holds a known event.
func (f *fold) held(r *request, n uint64) (row, error) {
	for _, row := range f.rows {
		if row.key == r.key && row.part.First <= n && n < row.part.Next() {
			return row, nil
		}
	}
	part, err := f.stored(r.key, n)
	return row{part: part, again: true}, err
}

// cut forgets the known events from the frame on: the frame is what the log holds now. Of the row in which it starts the
// head stays.
func (f *fold) cut(r *request, fr event.Frame, held row) {
	f.cuts = append(f.cuts, store.Cut{
		Tenant: r.key.Tenant, RequestID: r.key.ID, N: fr.First, Was: r.incarnation, Is: fr.Incarnation,
	})
	f.rows = slices.DeleteFunc(f.rows, func(row row) bool { return row.key == r.key && row.part.Next() > fr.First })
	for _, head := range split(r.key, held.part.Before(fr.First)) {
		head.again = held.again
		f.rows = append(f.rows, head)
	}
	r.next = fr.First
}

func (f *fold) append(r *request, fr event.Frame) error {
	r.incarnation, r.dirty = fr.Incarnation, true
	r.status = historyapi.StatusRunning
	if r.created == 0 {
		r.created = micros(fr.Time)
	}
	whole := fr.Next()
	if i := slices.IndexFunc(fr.Names, event.Name.IsTerminal); i >= 0 {
		fr = fr.Before(fr.First + uint64(i) + 1)
	}
	rows := split(r.key, fr)
	f.rows = append(f.rows, rows...)
	r.next = fr.Next()
	if len(rows) == 0 || !rows[len(rows)-1].part.Terminal() {
		return nil
	}
	r.status, r.ended = historyapi.Status(fr.Names[len(fr.Names)-1]), rows[len(rows)-1].last
	f.settle(r)
	if r.next < whole {
		return fmt.Errorf("%w: request %s continues after its terminal event %d", store.ErrStale, r.key.ID, r.next-1)
	}
	return nil
}

// events counts those that are stored for the first time.
func (f *fold) events() int {
	n := 0
	for _, row := range f.rows {
		if !row.again {
			n += len(row.part.Names)
		}
	}
	return n
}

// settle carries what a request says about its thread over to the thread, whichever of the two came first.
func (f *fold) settle(r *request) {
	t := f.threads[Key{r.key.Tenant, r.threadID}]
	if t == nil || r.threadID == "" {
		return
	}
	if t.deleted {
		f.purged = append(f.purged, t.key)
		return
	}
	if r.index < 0 {
		return
	}
	if r.title != "" && (t.titleIndex < 0 || r.index < t.titleIndex) {
		t.title, t.titleIndex, t.dirty = r.title, r.index, true
	}
	if r.ended > t.updated {
		t.updated, t.dirty = r.ended, true
	}
}

func title(messages []event.InputMessage) string {
	for _, m := range messages {
		line := strings.Join(strings.Fields(m.Content.Text()), " ")
		runes := slices.DeleteFunc([]rune(line), unicode.IsControl) // no database takes U+0000 as text
		if len(runes) > 0 {
			return string(runes[:min(len(runes), titleRunes)])
		}
	}
	return ""
}

// earlier is the smaller of two times of which 0 means none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
