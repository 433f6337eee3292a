package workload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

// The formats of a stream.
const (
	formatSSE   = "sse"
	formatLines = "ndjson"
)

// reader says how a session reads. It takes streams apart by itself, since what the product sends is under test.
type reader struct {
	session  string
	format   string
	extended bool
	leave    int // the chance, in percent, that it leaves before the end of a connection
}

// newReader returns one of any kind.
func (u *user) newReader() reader {
	r := reader{session: u.label("read"), format: formatSSE, extended: u.chance(50), leave: u.rng.IntN(4) * 25}
	if u.chance(30) {
		r.format = formatLines
	}
	return r
}

func (r reader) query() string {
	if r.extended {
		return "?include=extended"
	}
	return ""
}

func (r reader) accept(request *http.Request) {
	switch r.format {
	case formatSSE:
		request.Header.Set("Accept", "text/event-stream")
	case formatLines:
		request.Header.Set("Accept", "application/x-ndjson")
	}
}

// transcript is the state with which a reader resumes.
type transcript struct {
	cursor   string
	ended    bool
	terminal event.Event
	actions  []event.Continuation
}

// follow reads a request to its end, over as many connections as it takes.
func (u *user) follow(ctx context.Context, r reader, request string, seen *transcript) {
	for !seen.ended {
		if gone := u.connect(ctx, r, request, seen); gone {
			return
		}
		if !pause(ctx, u.between(0, 300*time.Millisecond)) {
			return
		}
	}
}

// connect opens one connection. It reports whether there is nothing to come back for.
func (u *user) connect(ctx context.Context, r reader, request string, seen *transcript) (gone bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log, gateway := u.group.Log, u.gateway()
	c := connection{request: request, gateway: gateway, at: log.Now(), after: seen.cursor}
	call, err := u.request(ctx, http.MethodGet, gateway+"/v1/requests/"+request+"/stream"+r.query(), "")
	if err != nil {
		return true
	}
	r.accept(call)
	if seen.cursor != "" {
		call.Header.Set("Last-Event-ID", seen.cursor)
	}
	response, err := u.group.http.Do(call)
	if err != nil {
		entry := r.entry(u, c)
		entry.Error, entry.End = err.Error(), oplog.Cut
		log.Add(entry)
		return false
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // a part of an answer is still an answer
		entry := r.entry(u, c)
		entry.Status, entry.Code, entry.End = response.StatusCode, codeOf(response.StatusCode, text), oplog.Cut
		log.Add(entry)
		return response.StatusCode < http.StatusInternalServerError // 204 among them
	}
	c.reset = response.Header.Get("X-Stream-Reset") != ""
	r.read(ctx, cancel, u, c, response.Body, seen)
	return false
}

// connection is one response.
type connection struct {
	request, thread, gateway, after string
	at                              time.Duration
	reset                           bool
}

func (r reader) entry(u *user, c connection) oplog.Entry {
	return oplog.Entry{
		At: c.at, Actor: u.name, Op: oplog.Read, Tenant: u.tenant, Gateway: c.gateway, Request: c.request, Thread: c.thread,
		Session: r.session, Format: r.format, Extended: r.extended, After: c.after, Reset: c.reset,
	}
}

// deadAfter is how long a connection may be silent before the client takes it for dead.
const deadAfter = 30 * time.Second

// read reads a response until it ends or the reader leaves. cancel ends the response.
func (r reader) read(ctx context.Context, cancel func(), u *user, c connection, body io.Reader, seen *transcript) {
	entry := r.entry(u, c)
	entry.Status = http.StatusOK
	stay := -1 // events until it leaves
	if u.chance(r.leave) {
		stay = u.rng.IntN(40)
	}
	quiet := &idleTimer{last: time.Now(), watchdog: time.AfterFunc(deadAfter, cancel)}
	defer quiet.watchdog.Stop()
	lines := bufio.NewReaderSize(&activityReader{body, quiet}, 64<<10)
	var open bytes.Buffer // of an event that is not complete
	for entry.End == "" {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			entry.Partial = open.Len() + len(line)
			entry.End = endOf(ctx, err)
			break
		}
		if foreign := foreignIn(line, u.group.Tenants, u.tenant); foreign != "" {
			entry.Foreign = foreign
		}
		data, complete := r.take(&open, line)
		if !complete || len(data) == 0 {
			continue
		}
		if r.note(&entry, data, seen) {
			entry.End = oplog.Terminal
		} else if stay--; stay == 0 {
			entry.End = oplog.Left
		}
	}
	entry.Silence = quiet.longest()
	u.group.Log.Add(entry)
}

// endOf says how a stream ended that did not come to its terminal event.
func endOf(ctx context.Context, err error) oplog.End {
	if ctx.Err() == nil && errors.Is(err, io.EOF) {
		return oplog.Whole
	}
	return oplog.Cut
}

// take adds a line to the open event, and returns the event's JSON when it is complete; nothing for a comment.
func (r reader) take(open *bytes.Buffer, line []byte) (data []byte, complete bool) {
	if r.format == formatLines {
		return bytes.TrimSuffix(line, []byte("\n")), true
	}
	if len(line) > 1 {
		open.Write(line)
		return nil, false
	}
	for field := range bytes.Lines(open.Bytes()) {
		if text, ok := bytes.CutPrefix(field, []byte("data: ")); ok {
			data = append(data, bytes.TrimSuffix(text, []byte("\n"))...)
		}
	}
	open.Reset()
	return data, true
}

// note keeps an event, and reports whether it is the last one.
func (r reader) note(entry *oplog.Entry, data []byte, seen *transcript) bool {
	e, err := event.Decode(data)
	if err != nil {
		entry.Error = err.Error()
		return false
	}
	_, n, err := event.ParseCursor(string(e.ID))
	if err != nil {
		entry.Error = err.Error()
		return false
	}
	entry.Seen = append(entry.Seen, oplog.Seen{N: n, Name: string(e.Body.Name()), Sum: oplog.SumOf(data)})
	if entry.Request == "" {
		entry.Request = e.RequestID
	}
	seen.cursor = string(e.ID)
	if action, ok := e.Body.(event.Continuation); ok {
		seen.actions = append(seen.actions, action)
	}
	seen.ended = event.IsTerminal(e.Body)
	if seen.ended {
		seen.terminal = e
	}
	return seen.ended
}

// idleTimer measures how long nothing came. It is for one goroutine.
type idleTimer struct {
	last     time.Time
	most     time.Duration
	watchdog *time.Timer
}

func (s *idleTimer) longest() time.Duration { return max(s.most, time.Since(s.last)) }

func (s *idleTimer) sound() {
	s.most = s.longest()
	s.last = time.Now()
	s.watchdog.Reset(deadAfter)
}

// activityReader reports every read that returned data.
type activityReader struct {
	io.Reader
	quiet *idleTimer
}

func (h *activityReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.quiet.sound()
	}
	return n, err
}
