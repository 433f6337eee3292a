package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/query"
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
	status                   query.Status
	next                     uint64
	incarnation              string
	created, ended           int64
	deleted, dirty           bool
}

func newRequest(k Key) *request { return &request{key: k, index: -1, status: query.StatusQueued} }

// thread is a row of threads.
type thread struct {
	key              Key
	owner, agentID   string
	title            string
	titleIndex, last int
	lastRequestID    string
	created, updated int64
	deleted, dirty   bool
}

func newThread(k Key) *thread { return &thread{key: k, titleIndex: -1, last: -1} }

// row is a row of events.
type row struct {
	key             Key
	n               uint64
	incarnation     string
	name            event.Name
	delta, terminal bool
	at              int64
	json            string
}

// fold takes entries in and holds what the transaction will write. It needs the touched rows loaded, and knows neither
// SQL nor context.
type fold struct {
	requests map[Key]*request
	threads  map[Key]*thread
	rows     []row
	inputs   map[Key]string
	purged   []Key // threads deleted by this batch
	cuts     []store.Cut
	// stored returns the incarnation of a stored event.
	stored func(request Key, n uint64) (string, error)
}

// entry takes one entry in. Errors other than the store's own concern the database and end the batch.
func (f *fold) entry(e store.Entry) error {
	switch {
	case e.Accepted != nil:
		return f.accept(f.requests[Key{e.Tenant, e.RequestID}], *e.Accepted)
	case e.Thread != nil:
		f.record(f.threads[Key{e.Tenant, e.ThreadID}], *e.Thread, e.Time)
		return nil
	case e.Frame != nil:
		return f.frame(f.requests[Key{e.Tenant, e.RequestID}], *e.Frame, e.Forgotten)
	default:
		return nil
	}
}

func (f *fold) accept(r *request, a command.Accepted) error {
	if r.deleted || r.accepted {
		return nil
	}
	input, err := json.Marshal(a.Request.Messages)
	if err != nil {
		return fmt.Errorf("%w: encode messages of request %s: %w", store.ErrStale, r.key.ID, err)
	}
	f.inputs[r.key] = string(input)
	r.accepted, r.dirty = true, true
	r.threadID, r.agentID, r.owner = a.ThreadID, a.AgentID, a.Owner
	r.title = title(a.Request.Messages)
	r.created = micros(a.At)
	f.settle(r)
	return nil
}

func (f *fold) record(t *thread, c command.Thread, stored time.Time) {
	if t.deleted {
		return
	}
	if c.At.IsZero() {
		c.At = stored
	}
	t.dirty = true
	if c.Deleted {
		*t = thread{key: t.key, titleIndex: -1, last: -1, updated: micros(c.At), deleted: true, dirty: true}
		f.purged = append(f.purged, t.key)
		return
	}
	t.created = earlier(t.created, micros(c.At))
	t.updated = max(t.updated, micros(c.At))
	t.owner = c.Owner
	if c.Index > t.last {
		t.last, t.lastRequestID, t.agentID = c.Index, c.RequestID, c.AgentID
	}
	r := f.requests[Key{t.key.Tenant, c.RequestID}]
	if r == nil || r.deleted {
		return
	}
	r.threadID, r.index, r.dirty = c.ThreadID, c.Index, true
	if !r.accepted {
		r.agentID, r.owner, r.created = c.AgentID, c.Owner, micros(c.At)
	}
	f.settle(r)
}

func (f *fold) frame(r *request, fr event.Frame, forgotten bool) error {
	if r.deleted || len(fr.Names) == 0 {
		return nil
	}
	if fr.First < r.next {
		same, err := f.sameLog(r, fr)
		if err != nil {
			return err
		}
		if same {
			fr = fr.From(r.next)
		} else if r.ended == 0 {
			f.cut(r, fr)
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

// sameLog reports whether a frame that starts among the stored events is a repetition of them. Otherwise the stream was
// restored to an earlier state, and another runner went on from there.
func (f *fold) sameLog(r *request, fr event.Frame) (bool, error) {
	if fr.Incarnation == r.incarnation {
		return true, nil
	}
	for _, row := range f.rows {
		if row.key == r.key && row.n == fr.First {
			return row.incarnation == fr.Incarnation, nil
		}
	}
	was, err := f.stored(r.key, fr.First)
	return was == fr.Incarnation, err
}

// cut forgets the stored events from the frame on: the frame is what the log holds now.
func (f *fold) cut(r *request, fr event.Frame) {
	f.cuts = append(f.cuts, store.Cut{
		Tenant: r.key.Tenant, RequestID: r.key.ID, N: fr.First, Was: r.incarnation, Is: fr.Incarnation,
	})
	f.rows = slices.DeleteFunc(f.rows, func(row row) bool { return row.key == r.key && row.n >= fr.First })
	r.next = fr.First
}

func (f *fold) append(r *request, fr event.Frame) error {
	r.incarnation, r.dirty = fr.Incarnation, true
	r.status = query.StatusRunning
	if r.created == 0 {
		r.created = micros(fr.Time)
	}
	for line := range fr.Each() {
		row := newRow(r.key, fr, line)
		f.rows = append(f.rows, row)
		r.next = line.N + 1
		if !row.terminal {
			continue
		}
		r.status, r.ended = query.Status(line.Name), row.at
		f.settle(r)
		if r.next < fr.Next() {
			return fmt.Errorf("%w: request %s goes on after its terminal event %d", store.ErrStale, r.key.ID, line.N)
		}
		return nil
	}
	r.next = fr.Next()
	return nil
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

// glance is what the table wants to know of an event beside its name.
type glance struct {
	Timestamp time.Time   `json:"timestamp"`
	Stage     event.Stage `json:"stage"`
}

// newRow never fails: an event that cannot be read is kept as it is, under the time of its frame.
func newRow(k Key, fr event.Frame, line event.Line) row {
	var g glance
	if err := json.Unmarshal(line.JSON, &g); err != nil || g.Timestamp.IsZero() {
		g.Timestamp = fr.Time
	}
	return row{
		key: k, n: line.N, incarnation: fr.Incarnation, name: line.Name,
		delta: g.Stage == event.Delta, terminal: line.Name.IsTerminal(), at: micros(g.Timestamp), json: string(line.JSON),
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
