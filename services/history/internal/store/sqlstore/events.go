package sqlstore

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// firstChunk is how many rows of a page are asked for at first.
const firstChunk = 16

// Frames lists the log of a request, row by row.
func (s *Store) Frames(ctx context.Context, q store.Frames) ([]event.Frame, error) {
	var frames []event.Frame
	events, size := 0, 0
	err := s.walk(ctx, store.Events{
		Tenant: q.Tenant, RequestID: q.RequestID, After: store.Position{N: q.From}, Limit: q.Limit, Bytes: q.Bytes,
	}, func(_ origin, f event.Frame) (more bool) {
		f = f.Before(f.First + uint64(q.Limit-events))
		f.Lines = bytes.Clone(f.Lines)
		frames = append(frames, f)
		events, size = events+len(f.Names), size+len(f.Lines)
		return events < q.Limit && (q.Bytes == 0 || size <= q.Bytes)
	})
	return frames, err
}

// Events lists events in the order of the thread.
func (s *Store) Events(ctx context.Context, q store.Events) ([]store.Event, error) {
	var events []store.Event
	size := 0
	err := s.walk(ctx, q, func(of origin, f event.Frame) (more bool) {
		for line := range f.Each() {
			if !wanted(q, of, line, f.Time) {
				continue
			}
			events = append(events, store.Event{
				Index: of.index, RequestID: of.requestID, N: line.N, Incarnation: f.Incarnation, Name: line.Name,
				JSON: json.RawMessage(bytes.Clone(line.JSON)),
			})
			size += len(line.JSON)
			if len(events) == q.Limit || q.Bytes > 0 && size > q.Bytes {
				return false
			}
		}
		return true
	})
	return events, err
}

// wanted reports whether a query asks for an event of a frame that was stored at a time.
func wanted(q store.Events, of origin, line event.Line, stored time.Time) bool {
	if len(q.Names) > 0 && !slices.Contains(q.Names, line.Name) || slices.Contains(q.Without, line.Name) {
		return false
	}
	if q.WithoutToolOutput && !slices.Contains(q.ToolOutputOf, of.agentID) && line.HasToolOutput() {
		return false
	}
	if !q.Blocks && q.Since.IsZero() && q.Until.IsZero() {
		return true
	}
	g := readHeadAt(line)
	if g.at.IsZero() {
		g.at = stored
	}
	if q.Blocks && g.delta {
		return false
	}
	at := micros(g.at)
	return at >= micros(q.Since) && (q.Until.IsZero() || at < micros(q.Until))
}

// walk passes the frames that may contain events of q to visit, in order, until visit returns false. Their lines are
// valid until visit returns. A page with a limit of bytes is read in chunks: the limit of a statement counts rows,
// whose sizes are unknown, and a server sends all rows that a statement finds.
func (s *Store) walk(
	ctx context.Context, q store.Events, visit func(o origin, f event.Frame) (more bool),
) error {
	w := walk{store: s, query: q, place: q.After, visit: visit, more: true}
	if q.RequestID != "" {
		w.place.RequestID = q.RequestID // of a request the place is an n alone
	}
	chunk := q.Limit
	if q.Bytes > 0 {
		chunk = min(chunk, firstChunk)
	}
	for w.more {
		shown, err := w.chunk(ctx, chunk)
		if err != nil {
			return s.explain(err, "read events")
		}
		if shown < chunk {
			return nil
		}
		chunk *= 4
	}
	return nil
}

// walk is on its way through the frames.
type walk struct {
	store *Store
	query store.Events
	place store.Position // where it continues
	visit func(o origin, f event.Frame) (more bool)
	more  bool
}

// chunk reads the next rows, up to limit. In the middle of a request on a thread it first reads the rest of that
// request and then the following requests: each is one scan of an index.
func (w *walk) chunk(ctx context.Context, limit int) (shown int, err error) {
	q := w.query
	if q.RequestID != "" {
		c := selection(ofRequest).and("f.tenant = ?", q.Tenant).and("f.request_id = ?", q.RequestID)
		return w.read(ctx, c.and("f.last_n >= ?", int64(w.place.N)), "f.last_n", limit)
	}
	of := func() *clauses {
		c := selection(ofThread).and("r.tenant = ?", q.Tenant).and("r.thread_id = ?", q.ThreadID)
		if q.Before > 0 {
			c.and("r.idx < ?", q.Before)
		}
		return c
	}
	const order = "r.idx, r.request_id, f.last_n"
	here := w.place
	if here.RequestID == "" {
		return w.read(ctx, of(), order, limit)
	}
	rest := of().and("r.request_id = ?", here.RequestID).and("f.request_id = ?", here.RequestID)
	shown, err = w.read(ctx, rest.and("f.last_n >= ?", int64(here.N)), "f.last_n", limit)
	if err != nil || shown == limit || !w.more {
		return shown, err
	}
	after, err := w.read(ctx, of().and("(r.idx, r.request_id) > (?, ?)", here.Index, here.RequestID), order, limit-shown)
	return shown + after, err
}

func (w *walk) read(ctx context.Context, c *clauses, order string, limit int) (shown int, err error) {
	w.narrow(c)
	return c.frames(ctx, w.store.read, order, limit, func(of origin, f event.Frame) bool {
		if of.requestID == w.place.RequestID {
			f = f.From(w.place.N)
		}
		w.place = store.Position{Index: of.index, RequestID: of.requestID, N: f.Next()}
		w.more = w.visit(of, f)
		return w.more
	})
}

// narrow leaves out rows in which nothing can be wanted; what is wanted of the others is seen event by event.
func (w *walk) narrow(c *clauses) {
	q := w.query
	if q.Blocks {
		c.and("f.beyond")
	}
	if len(q.Names) > 0 {
		find := strings.TrimSuffix(strings.Repeat(w.store.dialect.Find+"(f.names, ?) > 0 OR ", len(q.Names)), " OR ")
		c.and("("+find+")", texts(q.Names)...)
	}
	if len(q.Without) > 0 { // rows of one such event, which may be a long one
		c.and("f.names NOT IN ("+strings.TrimSuffix(strings.Repeat("?, ", len(q.Without)), ", ")+")", texts(q.Without)...)
	}
	if !q.Since.IsZero() {
		c.and("f.latest >= ?", micros(q.Since))
	}
	if !q.Until.IsZero() {
		c.and("f.earliest < ?", micros(q.Until))
	}
}

func texts(names []event.Name) []any {
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = string(name)
	}
	return args
}
