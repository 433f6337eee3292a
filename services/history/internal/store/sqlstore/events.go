package sqlstore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	ofRequest = `SELECT 0, e.request_id, e.n, e.incarnation, e.name, e.json FROM events e WHERE TRUE`
	ofThread  = `SELECT r.idx, e.request_id, e.n, e.incarnation, e.name, e.json FROM requests r
		JOIN events e ON e.tenant = r.tenant AND e.request_id = r.request_id WHERE NOT r.deleted AND r.idx >= 0`
)

// Events lists events in the order of the thread.
func (s *Store) Events(ctx context.Context, q store.Events) ([]store.Event, error) {
	list := eventList{store: s, query: q}
	if q.RequestID == "" {
		err := list.readThread(ctx)
		return list.events, err
	}
	c := selection(ofRequest).and("e.tenant = ?", q.Tenant).and("e.request_id = ?", q.RequestID)
	err := list.read(ctx, c.and("e.n >= ?", int64(q.After.N)), "e.n")
	return list.events, err
}

// eventList gathers events up to the limits of its query.
type eventList struct {
	store  *Store
	query  store.Events
	events []store.Event
	bytes  int
}

func (l *eventList) full() bool {
	return len(l.events) >= l.query.Limit || l.query.Bytes > 0 && l.bytes > l.query.Bytes
}

// readThread reads, in the midst of a request, the rest of that request first and then the requests that follow: each is
// one walk along an index.
func (l *eventList) readThread(ctx context.Context) error {
	q := l.query
	of := func() *clauses {
		c := selection(ofThread).and("r.tenant = ?", q.Tenant).and("r.thread_id = ?", q.ThreadID)
		if q.Before > 0 {
			c.and("r.idx < ?", q.Before)
		}
		return c
	}
	if q.After.RequestID == "" {
		return l.read(ctx, of(), "r.idx, r.request_id, e.n")
	}
	rest := of().and("r.request_id = ?", q.After.RequestID).and("e.request_id = ?", q.After.RequestID)
	if err := l.read(ctx, rest.and("e.n >= ?", int64(q.After.N)), "e.n"); err != nil || l.full() {
		return err
	}
	return l.read(ctx, of().and("(r.idx, r.request_id) > (?, ?)", q.After.Index, q.After.RequestID), "r.idx, r.request_id, e.n")
}

func (l *eventList) read(ctx context.Context, c *clauses, order string) error {
	c.filter(l.query)
	c.text.WriteString(" ORDER BY " + order + " LIMIT " + strconv.Itoa(l.query.Limit-len(l.events)))
	err := each(ctx, l.store.read, c.text.String(), c.args, func(rows *sql.Rows) error {
		e := store.Event{}
		var text []byte
		if err := rows.Scan(&e.Index, &e.RequestID, &e.N, &e.Incarnation, &e.Name, &text); err != nil {
			return err
		}
		e.JSON = jsontext.Value(text)
		l.events = append(l.events, e)
		l.bytes += len(text)
		if l.full() {
			return errEnough
		}
		return nil
	})
	if err != nil {
		return l.store.explain(err, "read events")
	}
	return nil
}

// clauses is a statement that grows conditions.
type clauses struct {
	text strings.Builder
	args []any
}

func selection(text string) *clauses {
	c := &clauses{}
	c.text.WriteString(text)
	return c
}

// and adds a condition; each ? in it stands for the next of args.
func (c *clauses) and(condition string, args ...any) *clauses {
	for _, arg := range args {
		c.args = append(c.args, arg)
		condition = strings.Replace(condition, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.text.WriteString(" AND " + condition)
	return c
}

func (c *clauses) filter(q store.Events) {
	if q.Blocks {
		c.and("NOT e.delta")
	}
	if len(q.Names) > 0 {
		c.and("e.name IN ("+places(q.Names)+")", texts(q.Names)...)
	}
	if len(q.Without) > 0 {
		c.and("e.name NOT IN ("+places(q.Without)+")", texts(q.Without)...)
	}
	if !q.Since.IsZero() {
		c.and("e.at >= ?", micros(q.Since))
	}
	if !q.Until.IsZero() {
		c.and("e.at < ?", micros(q.Until))
	}
}

func places(names []event.Name) string {
	return strings.TrimSuffix(strings.Repeat("?, ", len(names)), ", ")
}

func texts(names []event.Name) []any {
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = string(name)
	}
	return args
}
