package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/go-json-experiment/json"
)

// Extended requests all events in addition to the nine of the agent event protocol.
const Extended = "extended"

// StreamOptions change how a request is started and followed. The zero value is what most want.
type StreamOptions struct {
	// Include names the requested events in addition to the nine of the agent event protocol, or is just [Extended].
	Include []string
	// IdempotencyKey makes a repeated call with the same request give the same run. "" = a fresh one, so that only the
	// client's own attempts count as one.
	IdempotencyKey string
	// CreateThread lets the caller choose the id of a new thread: if the thread of the request does not exist, the request
	// creates it.
	CreateThread bool
	// Accepted is called once the server has taken the request, before the first event.
	Accepted func(requestID, threadID string)
}

// Stream starts a request and yields its events, each exactly once and in order, until the terminal one. It resumes a
// cut connection. A failed request yields its error event and no error; an error means that the client has lost the
// request: [Client.Follow] can resume it. Ending the iteration early, or the end of ctx, ends the stream and not the
// request: see [Client.Abort].
func (c *Client) Stream(ctx context.Context, agent string, r event.AgentRequest, o StreamOptions) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if o.IdempotencyKey == "" {
			o.IdempotencyKey = id.New("idem")
		}
		body, err := json.Marshal(r)
		if err != nil {
			yield(event.Event{}, fmt.Errorf("encode the request: %w", err))
			return
		}
		s := newSession(c, o.Include)
		s.start = func(ctx context.Context) (*http.Request, error) {
			query := s.query()
			if o.CreateThread {
				query.Set("createThread", "true")
			}
			request, err := c.newRequest(ctx, http.MethodPost, "/v1/agents/"+url.PathEscape(agent)+"/stream", query, body)
			if err == nil {
				request.Header.Set("Idempotency-Key", o.IdempotencyKey)
			}
			return request, err
		}
		s.accepted = o.Accepted
		s.run(ctx, yield)
	}
}

// Follow yields the events of a request after the cursor ("" = from the start) as [Client.Stream] does. After the
// terminal event it yields nothing. Include is as in [StreamOptions].
func (c *Client) Follow(ctx context.Context, requestID string, after event.Cursor, include ...string) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if requestID == "" {
			yield(event.Event{}, errors.New("follow a request: its id is missing"))
			return
		}
		s := newSession(c, include)
		s.requestID = requestID
		if err := s.resumeAfter(after); err != nil {
			yield(event.Event{}, err)
			return
		}
		s.run(ctx, yield)
	}
}

// session is one request, or one thread, followed over as many connections as it takes.
type session struct {
	client   *Client
	include  []string
	start    func(context.Context) (*http.Request, error) // sends the request; nil when it was started elsewhere
	accepted func(requestID, threadID string)
	thread   *following // nil = a request

	requestID string // "" = not received yet
	cursor    event.Cursor
	next      position // of the first event that was not yielded
	got       bool     // events have come in this session
	terminal  bool
	gone      bool // the caller has left the loop
	wait      backoff
}

func newSession(c *Client, include []string) *session {
	return &session{client: c, include: include, wait: backoff{short: c.wait}}
}

func (s *session) resumeAfter(after event.Cursor) error {
	if after == "" {
		return nil
	}
	_, n, err := event.ParseCursor(string(after))
	if err != nil {
		return err
	}
	s.cursor, s.next = after, position{n: n + 1}
	return nil
}

// startAttempts limits how often a request is sent before the server has accepted it, so that an unreachable server is
// reported soon.
const startAttempts = 3

// run connects, reads and connects again until the terminal event, an error that stays, or the caller's leave.
func (s *session) run(ctx context.Context, yield func(event.Event, error) bool) {
	for {
		before := s.next
		err := s.connection(ctx, yield)
		if s.terminal || s.gone || s.thread.deleted(err) {
			return
		}
		if ctx.Err() != nil {
			yield(event.Event{}, context.Cause(ctx))
			return
		}
		if errors.Is(err, errEnded) && !s.got {
			return // the caller has seen the terminal event before
		}
		if s.next != before || s.thread.lasted() {
			s.wait.reset()
		}
		attempts := s.client.Attempts
		if s.requestID == "" && s.thread == nil {
			attempts = startAttempts
		}
		if !passing(err) || !s.wait.pause(ctx, err, attempts) {
			yield(event.Event{}, s.explain(ctx, err))
			return
		}
	}
}

func (s *session) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s.thread != nil {
		return fmt.Errorf("follow thread %s: %w", s.thread.id, err)
	}
	if s.requestID == "" {
		return fmt.Errorf("start the request: %w", err)
	}
	return fmt.Errorf("follow request %s: %w", s.requestID, err)
}

var (
	errCut = errors.New("the connection was cut before the end of the stream")
	// errEnded is what the server says when it has nothing after the cursor and never will.
	errEnded error = &permanentError{errors.New("the server says that the request has ended, and has not sent its end")}
)

// connection opens one connection and yields what comes, until it ends. It never returns nil unless the terminal event
// came or the caller left.
func (s *session) connection(ctx context.Context, yield func(event.Event, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	response, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent {
		return errEnded
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "text/event-stream" {
		return &permanentError{fmt.Errorf("the server answered with %q and not with events; is the URL that of an agentbus gateway?", kind)}
	}
	s.note(response)
	watchdog := time.AfterFunc(s.client.Idle, cancel) // ends the reads below
	defer watchdog.Stop()
	events := sse.NewReader(sse.Alive(response.Body, func() { watchdog.Reset(s.client.Idle) }))
	for {
		told, err := events.Next()
		if retry := events.Retry(); retry > 0 {
			s.wait.suggested = retry
		}
		if errors.Is(err, sse.ErrTooLong) {
			return &permanentError{err}
		}
		if err != nil {
			return fmt.Errorf("%w: %w", errCut, err)
		}
		if err := s.take(told, yield); err != nil {
			return err
		}
		if s.terminal || s.gone {
			return nil
		}
	}
}

func (s *session) open(ctx context.Context) (*http.Response, error) {
	var (
		request *http.Request
		err     error
	)
	switch {
	case s.thread != nil:
		request, err = s.client.newRequest(ctx, http.MethodGet, s.thread.path(), s.query(), nil)
	case s.requestID == "":
		request, err = s.start(ctx)
	default:
		path := "/v1/requests/" + url.PathEscape(s.requestID) + "/stream"
		request, err = s.client.newRequest(ctx, http.MethodGet, path, s.query(), nil)
	}
	if err != nil {
		return nil, &permanentError{err}
	}
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Cache-Control", "no-store")
	if s.cursor != "" {
		request.Header.Set("Last-Event-ID", string(s.cursor))
	}
	return s.client.send(request)
}

// note keeps what the server says about the request.
func (s *session) note(response *http.Response) {
	if s.thread != nil {
		s.thread.opened, s.thread.known = true, true
		s.cursor = cmp.Or(s.cursor, event.Cursor(response.Header.Get("X-Stream-Start")))
		return
	}
	if s.requestID == "" {
		s.requestID = response.Header.Get("X-Request-Id")
	}
	if s.accepted != nil && s.requestID != "" {
		s.accepted(s.requestID, response.Header.Get("X-Thread-Id"))
		s.accepted = nil
	}
}

// take yields an event, unless it was yielded before.
func (s *session) take(told sse.Event, yield func(event.Event, error) bool) error {
	e, err := event.Decode(told.Data)
	if err != nil {
		return &permanentError{err}
	}
	cursor := cmp.Or(e.ID, event.Cursor(told.ID))
	if s.thread != nil {
		cursor = event.Cursor(told.ID) // the event has its position in the log of its request
	}
	at, err := s.locate(cursor, &e)
	if err != nil {
		return &permanentError{fmt.Errorf("an event without a place in the log: %w", err)}
	}
	s.cursor = cursor // also of an event that came before: the stream it names is the one to resume
	if at.before(s.next) {
		return nil
	}
	s.next, s.got = at.behind(), true
	if s.thread != nil {
		s.thread.reached(cursor)
	} else {
		s.requestID = cmp.Or(s.requestID, e.RequestID)
		s.terminal = event.IsTerminal(e.Body)
	}
	s.gone = !yield(e, nil)
	return nil
}

// locate returns the position of an event, and sets its ID to the cursor of its request's log.
func (s *session) locate(cursor event.Cursor, e *event.Event) (position, error) {
	if s.thread != nil {
		incarnation, at, err := parseThreadCursor(cursor)
		e.ID = event.NewCursor(incarnation, at.n)
		return at, err
	}
	_, n, err := event.ParseCursor(string(cursor))
	e.ID = cursor
	return position{n: n}, err
}

func (s *session) query() url.Values {
	values := url.Values{}
	if len(s.include) > 0 {
		values.Set("include", strings.Join(s.include, ","))
	}
	if s.thread != nil && s.thread.fromStart {
		values.Set("from", "start")
	}
	return values
}
