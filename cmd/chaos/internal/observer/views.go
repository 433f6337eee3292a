package observer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The bounds of reading everything again.
const (
	viewers    = 6   // at once
	viewTries  = 5   // of one view
	maxViewed  = 400 // requests and threads that are read, of each
	viewWait   = 20 * time.Second
	pageOfList = 200
)

// View reads everything that has ended by every route of every gateway, and then once more when the stream has forgotten
// it: what is left is in SQL.
func (w *Observer) View(ctx context.Context, run *check.Run) error {
	views := w.plan(run, false)
	w.readAll(ctx, views)
	if err := forget(ctx, w.Cluster.NATSURL); err != nil {
		return fmt.Errorf("purge %s: %w", eventsStream, err)
	}
	later := w.plan(run, true)
	w.readAll(ctx, later)
	for _, v := range append(views, later...) {
		run.Views = append(run.Views, v.View)
	}
	return ctx.Err()
}

// forget removes every event, as the stream does with those that have become too old.
func forget(ctx context.Context, url string) error {
	nc, err := nats.Connect(url, nats.Timeout(5*time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, eventsStream)
	if err != nil {
		return err
	}
	return stream.Purge(ctx)
}

// readerState is a view to take.
type readerState struct {
	check.View
	query  string // of a stream
	until  int    // how many terminal events end it
	cursor string // to resume after
}

// plan lists the views. Each stream is read in both formats and with both choices of events, one of each gateway.
func (w *Observer) plan(run *check.Run, forgotten bool) []*readerState {
	var all []*readerState
	add := func(id check.ID, route check.Route, gateway int, change func(*readerState)) {
		l := &readerState{View: check.View{ID: id, Route: route, Gateway: w.Cluster.Gateways[gateway], Forgotten: forgotten}, until: 1}
		change(l)
		all = append(all, l)
	}
	for i, id := range ended(run) {
		for gateway := range w.Cluster.Gateways {
			for kind := range 2 {
				add(id, check.RouteRequest, gateway, func(l *readerState) { l.shape(kind, (i+gateway+kind)%2 == 0) })
			}
		}
		add(id, check.RouteRequest, i%len(w.Cluster.Gateways), func(l *readerState) {
			l.shape(i%2, true)
			f := run.Logs[id].Last()
			l.After, l.Resumed = (f.Next()-1)/2, true
			l.cursor = string(event.NewCursor(f.Incarnation, l.After))
		})
	}
	for _, id := range ended(run) {
		for gateway := range w.Cluster.Gateways {
			if len(run.Logs[id].Steers) > 0 && !forgotten {
				add(id, check.RouteState, gateway, func(*readerState) {})
			}
		}
	}
	for i, id := range threads(run) {
		for gateway := range w.Cluster.Gateways {
			for _, route := range []check.Route{check.RouteEvents, check.RouteMessages, check.RouteSession} {
				add(id, route, gateway, func(l *readerState) { l.Extended = route == check.RouteEvents })
			}
			if !forgotten { // a stream of a thread goes back as far as the bus remembers it
				add(id, check.RouteThread, gateway, func(l *readerState) {
					l.shape(gateway, i%2 == 0)
					l.until = len(run.Threads[id])
				})
			}
		}
	}
	return all
}

// shape sets format and choice of events.
func (l *readerState) shape(kind int, extended bool) {
	l.Format, l.Extended = []string{"sse", "ndjson"}[kind], extended
	if extended {
		l.query = "include=extended"
	}
}

// ended lists the requests that can be read, the first of a run.
func ended(run *check.Run) []check.ID {
	var all []check.ID
	for _, records := range run.Threads {
		for _, t := range records {
			id := check.ID{Name: t.RequestID}
			for _, tenant := range tenantsOf(run, t.RequestID) {
				id.Tenant = tenant
				if !t.Deleted && run.Logs[id].Terminal() != "" {
					all = append(all, id)
				}
			}
		}
	}
	return first(all)
}

func tenantsOf(run *check.Run, request string) []string {
	var tenants []string
	for id := range run.Logs {
		if id.Name == request {
			tenants = append(tenants, id.Tenant)
		}
	}
	return tenants
}

// threads lists the threads whose requests have all ended.
func threads(run *check.Run) []check.ID {
	var all []check.ID
	for id, records := range run.Threads {
		open := slices.ContainsFunc(records, func(t check.Thread) bool {
			return t.Deleted || run.Logs[check.ID{Tenant: id.Tenant, Name: t.RequestID}].Terminal() == ""
		})
		if !open {
			all = append(all, id)
		}
	}
	return first(all)
}

func first(all []check.ID) []check.ID {
	slices.SortFunc(all, func(a, b check.ID) int { return strings.Compare(a.Name+a.Tenant, b.Name+b.Tenant) })
	return all[:min(len(all), maxViewed)]
}

// readAll takes views, several at once.
func (w *Observer) readAll(ctx context.Context, views []*readerState) {
	todo := make(chan *readerState)
	var reading sync.WaitGroup
	for range viewers {
		reading.Go(func() {
			for l := range todo {
				w.readOne(ctx, l)
			}
		})
	}
	for _, l := range views {
		todo <- l
	}
	close(todo)
	reading.Wait()
}

// readOne takes a view, again where a service is busy or not ready yet.
func (w *Observer) readOne(ctx context.Context, l *readerState) {
	for try := range viewTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
		l.Seen, l.Document, l.Error = nil, "", ""
		attempt, cancel := context.WithTimeout(ctx, viewWait)
		err := w.read(attempt, l)
		cancel()
		if err == nil {
			return
		}
		l.Error = err.Error()
		if l.Status != 0 && l.Status != http.StatusOK && l.Status != http.StatusTooManyRequests && l.Status < http.StatusInternalServerError {
			return
		}
	}
}

func (w *Observer) read(ctx context.Context, l *readerState) error {
	switch l.Route {
	case check.RouteRequest:
		return w.readStream(ctx, l, "/v1/requests/"+l.ID.Name+"/stream?"+l.query)
	case check.RouteThread:
		return w.readStream(ctx, l, "/v1/threads/"+l.ID.Name+"/stream?from=start&"+l.query)
	case check.RouteEvents:
		return w.readPages(ctx, l, "/v1/threads/"+l.ID.Name+"/events", "events")
	case check.RouteMessages:
		return w.readPages(ctx, l, "/v1/threads/"+l.ID.Name+"/messages", "messages")
	case check.RouteState:
		return w.readState(ctx, l)
	default:
		body, err := w.get(ctx, l, "/api/v1/sessions/events?sessionId="+url.QueryEscape(l.ID.Name))
		if err != nil {
			return err
		}
		defer func() { _ = body.Close() }()
		text, err := io.ReadAll(body)
		l.Document = string(text)
		return err
	}
}

// readState reads what the state of a request says of its steers.
func (w *Observer) readState(ctx context.Context, l *readerState) error {
	body, err := w.get(ctx, l, "/v1/requests/"+l.ID.Name)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	var state struct {
		Unread json.RawMessage `json:"unreadSteers"`
	}
	err = jsonv2.UnmarshalRead(body, &state)
	l.Document = string(state.Unread)
	return err
}

// readPages reads a list from its first page to its last.
func (w *Observer) readPages(ctx context.Context, l *readerState, path, member string) error {
	all := []json.RawMessage{}
	for cursor := ""; ; {
		var page map[string]json.RawMessage
		body, err := w.get(ctx, l, fmt.Sprintf("%s?limit=%d&cursor=%s", path, pageOfList, url.QueryEscape(cursor)))
		if err != nil {
			return err
		}
		err = jsonv2.UnmarshalRead(body, &page)
		_ = body.Close() // it has been read
		if err != nil {
			return err
		}
		var some []json.RawMessage
		if err := jsonv2.Unmarshal(page[member], &some); err != nil {
			return err
		}
		all, cursor = append(all, some...), ""
		if next, ok := page["nextCursor"]; ok {
			if err := jsonv2.Unmarshal(next, &cursor); err != nil {
				return err
			}
		}
		if cursor == "" {
			break
		}
	}
	if l.Route == check.RouteEvents {
		for _, line := range all {
			if err := l.note(line); err != nil {
				return err
			}
		}
		return nil
	}
	document, err := jsonv2.Marshal(all)
	l.Document = string(document)
	return err
}

// readStream reads a stream until so many requests have ended.
func (w *Observer) readStream(ctx context.Context, l *readerState, path string) error {
	body, err := w.get(ctx, l, path)
	if err != nil || l.Status == http.StatusNoContent {
		return err
	}
	defer func() { _ = body.Close() }()
	lines := bufio.NewReader(body)
	left := l.until
	for left > 0 {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("after %d events, with %d requests to end: %w", len(l.Seen), left, err)
		}
		data := bytes.TrimSuffix(line, []byte("\n"))
		if l.Format == "sse" {
			var ok bool
			if data, ok = bytes.CutPrefix(data, []byte("data: ")); !ok {
				continue
			}
		}
		if err := l.note(data); err != nil {
			return err
		}
		if event.Name(l.Seen[len(l.Seen)-1].Name).IsTerminal() {
			left--
		}
	}
	return nil
}

// note keeps an event.
func (l *readerState) note(data []byte) error {
	e, err := event.Decode(data)
	if err != nil {
		return err
	}
	_, n, err := event.ParseCursor(string(e.ID))
	l.Seen = append(l.Seen, oplog.Seen{N: n, Name: string(e.Body.Name()), Sum: oplog.SumOf(data)})
	return err
}

// get asks a gateway, as the tenant.
func (w *Observer) get(ctx context.Context, l *readerState, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.Gateway+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+w.Cluster.Keys[l.ID.Tenant])
	if l.Format == "ndjson" {
		request.Header.Set("Accept", "application/x-ndjson")
	}
	if l.Format == "sse" {
		request.Header.Set("Accept", "text/event-stream")
	}
	if l.cursor != "" {
		request.Header.Set("Last-Event-ID", l.cursor)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if l.Status = response.StatusCode; l.Status != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 300)) // a part of an answer is still an answer
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w: %s", errBadAnswer, text)
	}
	if reset := response.Header.Get("X-Stream-Reset"); l.Resumed && reset != "" {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w: the cursor %s was refused", errBadAnswer, l.cursor)
	}
	return response.Body, nil
}
