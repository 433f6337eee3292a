package tarko

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// Limits of a list of events.
const (
	maxEvents = 10_000  // if the client sets no limit
	maxListed = 8 << 20 // bytes; the list ends with the event that passes this
)

// selection selects events of a session.
type selection struct {
	nested       bool
	types        []string // empty = all; a type that ends with '*' is a prefix
	since, until time.Time
	limit        int // 0 = maxEvents
	offset       int
}

func parseSelection(x *protocol.Exchange) (sel selection, err error) {
	if sel.nested, err = wantsNested(x); err != nil {
		return sel, err
	}
	if sel.limit, err = numberParam(x, "limit", maxEvents); err != nil {
		return sel, err
	}
	if sel.offset, err = numberParam(x, "offset", 1<<30); err != nil {
		return sel, err
	}
	if sel.since, err = timeParam(x, "since"); err != nil {
		return sel, err
	}
	if sel.until, err = timeParam(x, "until"); err != nil {
		return sel, err
	}
	sel.types = x.QueryList("type")
	if len(sel.types) > 100 {
		return sel, invalid("type has more than 100 entries")
	}
	if sel.limit == 0 && !x.Query().Has("limit") {
		sel.limit = maxEvents
	}
	return sel, nil
}

// timeParam reads a time from the URL: in milliseconds, as in events, or as RFC 3339 text.
func timeParam(x *protocol.Exchange, name string) (time.Time, error) {
	text := x.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms >= 0 {
		return time.UnixMilli(ms), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, invalid("%s must be a time in milliseconds, or like 2026-01-31T12:00:00Z", name)
	}
	return t, nil
}

// matches reports whether a list contains an event. It omits increments.
func (sel selection) matches(e eventstream.Event) bool {
	return !tarko.Type(e.Type).IsStreaming() && sel.selects(e)
}

// selects reports whether the parameters select an event.
func (sel selection) selects(e eventstream.Event) bool {
	switch {
	case !sel.since.IsZero() && e.Time.Before(sel.since), !sel.until.IsZero() && !e.Time.Before(sel.until):
		return false
	}
	return len(sel.types) == 0 || slices.ContainsFunc(sel.types, func(t string) bool {
		prefix, open := strings.CutSuffix(t, "*")
		return t == e.Type || open && strings.HasPrefix(e.Type, prefix)
	})
}

// page is a list of events (GET /api/v1/sessions/events). Total counts the selected events as far as the session was
// read: all of them if HasMore is false, otherwise at least one beyond the page.
type page struct {
	Events  []json.RawMessage `json:"events"`
	Total   int               `json:"total"`
	HasMore bool              `json:"hasMore"`
}

// listEvents returns the selected events of a session in the order of its log, up to the limits. It omits increments.
func (s *Server) listEvents(ctx context.Context, found session, sel selection) (page, error) {
	l := lister{selection: sel, page: page{Events: []json.RawMessage{}}, form: eventstream.Event.AppendFlat}
	projector := tarko.NewProjector(tarko.Flat)
	if sel.nested {
		l.form, projector = eventstream.Event.AppendNested, tarko.NewProjector(tarko.Nested)
		meta, err := s.metadata(ctx, found)
		if err != nil {
			return page{}, err
		}
		if err := l.add(tarko.SessionStarted(meta.ThreadID, meta.AgentID, meta.CreatedAt)); err != nil {
			return page{}, err
		}
	}
	ref := historyapi.ThreadRef{Tenant: found.tenant, ThreadID: found.thread.ThreadID}
	for part, err := range s.History.AllThreadFrames(ctx, historyapi.ThreadFramesQuery{ThreadRef: ref, Limit: sel.pageSize()}) {
		if err != nil {
			return page{}, err
		}
		for _, frame := range part.Frames {
			if err := l.project(projector, frame.Event()); err != nil {
				return page{}, err
			}
			if l.full() {
				break
			}
		}
		if l.full() {
			break
		}
	}
	l.page.HasMore = sel.offset+len(l.page.Events) < l.page.Total
	return l.page, nil
}

// pageSize returns how many events to request from history at a time: not more than are likely to be needed.
func (sel selection) pageSize() int {
	const least, most = 100, 2000
	return min(max(2*(sel.offset+sel.limit), least), most)
}

// lister collects a page of a session's events.
type lister struct {
	selection
	page  page
	bytes int // of its events
	form  func(eventstream.Event, []byte) ([]byte, error)
}

// full reports whether the page is complete and more events follow.
func (l *lister) full() bool { return l.page.Total > l.offset+len(l.page.Events) && !l.hasSpace() }

func (l *lister) hasSpace() bool { return len(l.page.Events) < l.limit && l.bytes < maxListed }

func (l *lister) project(p *tarko.Projector, f event.Frame) error {
	for line := range f.Each() {
		e, err := event.Decode(line.JSON)
		e.ID = event.NewCursor(f.Incarnation, line.N)
		if err != nil {
			return err
		}
		stored, err := p.Project(e)
		if err != nil {
			return err
		}
		for _, one := range stored {
			if err := l.add(one); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *lister) add(e eventstream.Event) error {
	if !l.matches(e) {
		return nil
	}
	place := l.page.Total
	l.page.Total++
	if place < l.offset || !l.hasSpace() {
		return nil
	}
	text, err := l.form(e, nil)
	if err != nil {
		return err
	}
	l.page.Events, l.bytes = append(l.page.Events, text), l.bytes+len(text)
	return nil
}

func (s *Server) getEvents(x *protocol.Exchange) error {
	sel, err := parseSelection(x)
	if err != nil {
		return err
	}
	found, err := s.mustRead(x, x.Query().Get("sessionId"))
	if err != nil {
		return err
	}
	events, err := s.listEvents(x.Context(), found, sel)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, events)
}

// latest is the response of getLatest.
type latest struct {
	SessionID   string `json:"sessionId"`
	SessionInfo info   `json:"sessionInfo"`
	page
}

// getLatest lists the events of the session that changed last.
func (s *Server) getLatest(x *protocol.Exchange) error {
	sel, err := parseSelection(x)
	if err != nil {
		return err
	}
	p := x.Principal()
	newest, err := s.History.Sessions(x.Context(), historyapi.ThreadsQuery{Tenant: p.Tenant, Owner: p.Subject, Limit: 1})
	if err != nil {
		return err
	}
	if len(newest.Sessions) == 0 {
		return x.Reply(http.StatusNotFound, failure{"No sessions found"})
	}
	meta := asSession(newest.Sessions[0])
	found, err := s.mustRead(x, meta.ThreadID)
	if err != nil {
		return err
	}
	events, err := s.listEvents(x.Context(), found, sel)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, latest{meta.ThreadID, s.info(x, meta), events})
}

// getEventStream streams a session, query after query, until the client disconnects or the session is deleted. Types and
// times select events, as in lists; the cursors of the others are skipped. It starts with the running or the next query,
// with from=start at the beginning, or after a cursor.
func (s *Server) getEventStream(x *protocol.Exchange) error {
	sel, err := parseSelection(x)
	if err != nil {
		return err
	}
	d := wire.Codec{Framing: wire.Session}
	if sel.nested {
		d.Vocabulary = tarko.Nested
	}
	if len(sel.types) > 0 || !sel.since.IsZero() || !sel.until.IsZero() {
		d.Keep = sel.selects
	}
	found, frames, err := s.openStream(x)
	if err != nil {
		return err
	}
	enc, err := x.Encoder(d, codec.Options{From: frames.Rewind(), Cursor: frames.AppendCursor})
	if err != nil {
		frames.Close()
		return err
	}
	answer := x.Resume(frames)
	answer.Encoder = enc
	if answer.Prelude, err = s.prelude(x.Context(), found, frames, enc); err != nil {
		frames.Close()
		return err
	}
	return x.Stream(answer)
}

// prelude returns the events that precede the first event of a session, nil if the stream starts later.
func (s *Server) prelude(ctx context.Context, found session, frames *stream.Thread, enc codec.Encoder) ([]byte, error) {
	if frames.Start() != stream.FromStart {
		return nil, nil
	}
	meta, err := s.metadata(ctx, found)
	if err != nil {
		return nil, err
	}
	return stream.AppendThreadStarted(nil, enc, codec.Thread{ID: meta.ThreadID, AgentID: meta.AgentID, CreatedAt: meta.CreatedAt})
}

// openStream opens the stream of a session at the position that the client selects.
func (s *Server) openStream(x *protocol.Exchange) (session, *stream.Thread, error) {
	defer x.WithTimeout()()
	cursor, err := x.Cursor()
	if err != nil {
		return session{}, nil, err
	}
	switch from := x.Query().Get("from"); {
	case from != "" && from != "start":
		return session{}, nil, invalid("from=%.40q: use start, or leave it out", from)
	case from == "start" && cursor == "":
		cursor = stream.FromStart
	}
	found, err := s.mustRead(x, x.Query().Get("sessionId"))
	if err != nil {
		return session{}, nil, err
	}
	frames, reset, err := s.open(x.Context(), found, cursor)
	if err == nil {
		x.SetThread(found.thread.ThreadID, reset)
	}
	return found, frames, err
}

// open opens the stream of a session after a cursor; without one, at the running or the next query. reset reports that
// the cursor cannot be resumed, so that the stream starts at the beginning.
func (s *Server) open(ctx context.Context, found session, cursor string) (frames *stream.Thread, reset bool, err error) {
	at := found.thread
	if cursor == "" { // other requests may wait for the running one
		if at, err = s.Acceptor.Running(ctx, found.tenant, at); err != nil {
			return nil, false, authz.Unavailable(err)
		}
	}
	return s.Logs.OpenThread(ctx, found.tenant, at, cursor)
}
