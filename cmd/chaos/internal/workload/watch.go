package workload

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/go-json-experiment/json"
)

// route is a way to follow a thread, which is a session for Tarko's clients, across its requests.
type route struct {
	format string // as the record names it
	path   string // of the gateway, with %s for the thread; "" = the WebSocket
	lines  bool   // JSON lines instead of server-sent events
}

// routes are all of them. Native streams of threads are server-sent events alone: their JSON lines have no cursors.
func routes() []route {
	return []route{
		{"thread", "/v1/threads/%s/stream?from=start", false},
		{"thread extended", "/v1/threads/%s/stream?from=start&include=extended", false},
		{"session", "/api/v1/sessions/events/stream?from=start&sessionId=%s", false},
		{"session protocol", "/api/v1/sessions/events/stream?from=start&format=protocol&sessionId=%s", true},
		{"socket", "", false},
		{"socket protocol", "", false},
	}
}

// watching sends requests on one thread while others watch it from its beginning, by several routes: they disconnect,
// resume after their newest cursor at any gateway, and stay until the last request has ended.
func (u *user) watching(ctx context.Context) {
	first, _ := u.post(ctx, order{body: says("", u.script()), key: u.label("key")})
	if !first.taken() {
		return
	}
	over := make(chan struct{})
	last := first.request
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer func() { close(over) }()
	all := routes()
	for range 2 {
		watcher, r := u.fork(), all[u.rng.IntN(len(all))]
		watchers.Go(func() {
			watcher.watch(ctx, r, first.thread, over, &last, watcher.rng.IntN(3)*20)
			// Read again when everything has ended: the same events in the same order.
			watcher.watch(ctx, r, first.thread, over, &last, 0)
		})
	}
	u.follow(ctx, u.newReader(), last, &transcript{})
	for range 1 + u.rng.IntN(2) {
		got, _ := u.post(ctx, order{body: says(first.thread, u.script()), key: u.label("key"), retryBusy: true})
		if !got.taken() {
			return
		}
		last = got.request
		if u.chance(20) {
			u.abort(ctx, got.request)
		}
		u.follow(ctx, u.newReader(), got.request, &transcript{})
	}
}

// watcher is one who follows a thread.
type watcher struct {
	*user

	route   route
	session string
	thread  string
	leave   int // chance, in percent, to leave a connection early

	mu     sync.Mutex
	cursor string
	ended  map[string]bool // the requests whose ends it has seen
	cancel context.CancelFunc
}

// watch follows a thread until it has seen the end of the last request. That request is known once over is closed.
func (u *user) watch(ctx context.Context, r route, thread string, over <-chan struct{}, last *string, leave int) {
	w := &watcher{user: u, route: r, session: u.label("watch"), thread: thread, leave: leave, ended: map[string]bool{}}
	done := make(chan struct{})
	defer close(done)
	go func() { // ends with the watch
		select {
		case <-over:
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.ended[*last] && w.cancel != nil {
				w.cancel()
			}
		case <-done:
		}
	}()
	for !w.saw(over, last) {
		if !w.connect(ctx, over, last) || !pause(ctx, u.between(0, 300*time.Millisecond)) {
			return
		}
	}
}

// saw reports whether the last request is known, and its end was seen.
func (w *watcher) saw(over <-chan struct{}, last *string) bool {
	select {
	case <-over:
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.ended[*last]
	default:
		return false
	}
}

// connect opens one connection, and reports whether another one makes sense after it.
func (w *watcher) connect(ctx context.Context, over <-chan struct{}, last *string) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.mu.Lock()
	w.cancel = cancel
	w.mu.Unlock()
	entry := oplog.Entry{
		At: w.group.Log.Now(), Actor: w.name, Op: oplog.Watch, Tenant: w.tenant, Gateway: w.gateway(), Thread: w.thread,
		Session: w.session, Format: w.route.format, Extended: strings.Contains(w.route.format, "extended"), After: w.cursor, End: oplog.Cut,
	}
	defer func() { w.group.Log.Add(entry) }()
	source, err := w.open(ctx, &entry)
	if err != nil {
		entry.Error = err.Error()
		return entry.Status < http.StatusBadRequest || entry.Status >= http.StatusInternalServerError
	}
	defer source.close()
	stay := 0
	if w.chance(w.leave) {
		stay = 1 + w.rng.IntN(60)
	}
	for {
		watchdog := time.AfterFunc(deadAfter, cancel)
		s, err := source.next(ctx)
		watchdog.Stop()
		if err != nil {
			entry.Code = err.Error()
			return true
		}
		w.note(&entry, s)
		if w.saw(over, last) {
			entry.End = oplog.Terminal
			return true
		}
		if stay--; stay == 0 {
			entry.End = oplog.Left
			return true
		}
	}
}

// watchedEvent is an event that a watcher received, and the cursor after it; either may be missing.
type watchedEvent struct {
	data   []byte
	cursor string
}

// source gives what one connection brings.
type source interface {
	next(ctx context.Context) (watchedEvent, error)
	close()
}

// note keeps an event.
func (w *watcher) note(entry *oplog.Entry, s watchedEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if foreign := foreignIn(s.data, w.group.Tenants, w.tenant); foreign != "" {
		entry.Foreign = foreign
	}
	if len(s.data) > 0 {
		var e struct {
			ID        string `json:"id"`
			Event     string `json:"event"`     // of a native event
			Type      string `json:"type"`      // of one of Tarko's
			RequestID string `json:"requestId"` // of a native event
		}
		if err := json.Unmarshal(s.data, &e); err != nil {
			entry.Error = err.Error()
			return
		}
		entry.Seen = append(entry.Seen, oplog.Seen{Name: e.Event + e.Type, Sum: oplog.SumOf(s.data)})
		switch {
		case e.Event == "done" || e.Event == "error" || e.Event == "aborted":
			w.ended[e.RequestID] = true
		case e.Type == "agent_run_end":
			request, _, _ := strings.Cut(e.ID, "-")
			w.ended[request] = true
		}
	}
	if s.cursor != "" {
		w.cursor, entry.Kept = s.cursor, len(entry.Seen)
	}
}

// open opens a connection by the watcher's route.
func (w *watcher) open(ctx context.Context, entry *oplog.Entry) (source, error) {
	if w.route.path == "" {
		return w.dial(ctx, entry)
	}
	call, err := w.request(ctx, http.MethodGet, entry.Gateway+strings.ReplaceAll(w.route.path, "%s", w.thread), "")
	if err != nil {
		return nil, err
	}
	reader{format: map[bool]string{false: formatSSE, true: formatLines}[w.route.lines]}.accept(call)
	if w.cursor != "" {
		call.Header.Set("Last-Event-ID", w.cursor)
	}
	response, err := w.group.http.Do(call)
	if err != nil {
		return nil, err
	}
	entry.Status = response.StatusCode
	if response.StatusCode != http.StatusOK {
		defer func() { _ = response.Body.Close() }()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // a part of an answer is still an answer
		return nil, refused(text)
	}
	entry.Reset = response.Header.Get("X-Stream-Reset") != ""
	return &stream{body: response.Body, lines: bufio.NewReader(response.Body), sse: !w.route.lines}, nil
}

// refused is the body of a response that is not a stream.
type refused []byte

func (r refused) Error() string { return string(r) }

// stream is the response of a route over HTTP.
type stream struct {
	body  io.ReadCloser
	lines *bufio.Reader
	sse   bool
}

func (s *stream) close() { _ = s.body.Close() }

// next reads a line, or a block of server-sent events.
func (s *stream) next(context.Context) (watchedEvent, error) {
	var got watchedEvent
	for {
		line, err := s.lines.ReadBytes('\n')
		if err != nil {
			return watchedEvent{}, err
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if !s.sse {
			if len(line) > 0 {
				return watchedEvent{line, cursorOf(line)}, nil
			}
			continue
		}
		name, value, _ := strings.Cut(string(line), ": ")
		switch {
		case name == "data":
			got.data = append(got.data, value...)
		case name == "id":
			got.cursor = value
		case len(line) == 0 && (len(got.data) > 0 || got.cursor != ""):
			return got, nil
		}
	}
}

// cursorOf returns the cursor after an event that was received as a line.
func cursorOf(line []byte) string {
	var e struct {
		Cursor string `json:"cursor"`
	}
	if json.Unmarshal(line, &e) != nil {
		return "" // note reports it
	}
	return e.Cursor
}
