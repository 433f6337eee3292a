package api

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/sse"
)

const (
	maxStreams   = 1000 // that are open at one time
	heartbeat    = 15 * time.Second
	writeTimeout = 30 * time.Second // for a client to take what is written
)

// stream serves GET /api/agents/{id}/tasks/{taskId}/stream: the events of the agent-server with their numbers. A connection that
// ends before the last event is aborted, so that the client reconnects with Last-Event-ID.
func (a *API) stream(w http.ResponseWriter, r *http.Request) {
	p, err := a.principal(r, auth.ScopeRead)
	if err != nil {
		a.fail(w, r, a.guessed(r, err))
		return
	}
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		busy := apierr.New(apierr.Unavailable, "%d streams are open already; close one", cap(a.streams))
		busy.RetryAfter = time.Second
		a.fail(w, r, busy)
		return
	}
	resume, err := resumeAt(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events, err := a.tasks.Events(ctx, ref(r, p), resume)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	arrivals := pull(ctx, events)
	defer func() {
		cancel()
		for range arrivals { // until the sequence has ended
		}
	}()
	a.relay(ctx, w, r, arrivals)
}

func resumeAt(r *http.Request) (*uint64, error) {
	header := r.Header.Get("Last-Event-ID")
	if header == "" {
		return nil, nil //nolint:nilnil // the client has no event yet
	}
	n, err := strconv.ParseUint(header, 10, 64)
	if err != nil {
		return nil, apierr.New(apierr.InvalidMessageFormat, "Last-Event-ID %.40q is not a number; send the id of the last event that came", header)
	}
	return &n, nil
}

// arrival is the next event of a stream, or the error that ends it.
type arrival struct {
	event remoteagent.Event
	err   error
}

// pull reads events into a channel, which is closed after the last. It ends with ctx.
func pull(ctx context.Context, events iter.Seq2[remoteagent.Event, error]) <-chan arrival {
	arrivals := make(chan arrival)
	go func() {
		defer close(arrivals)
		for e, err := range events {
			select {
			case arrivals <- arrival{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return arrivals
}

// relay writes a stream. The status is written with its first event or heartbeat.
func (a *API) relay(ctx context.Context, w http.ResponseWriter, r *http.Request, arrivals <-chan arrival) {
	out := sseWriter{ResponseWriter: w}
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		frame, ended, err := a.await(ctx, r, arrivals, tick.C)
		switch {
		case errors.Is(err, errNoMore) && !out.begun: // the client has the last event
			w.WriteHeader(http.StatusNoContent)
			return
		case err != nil && !out.begun && ctx.Err() == nil:
			a.fail(w, r, err)
			return
		case err != nil || !out.write(frame):
			panic(http.ErrAbortHandler) // a clean end would look as if the task had ended
		case ended:
			return
		}
	}
}

var (
	errNoMore   = errors.New("the stream has no more events")
	errStopping = apierr.New(apierr.Unavailable, "the hub is stopping; reconnect")
)

// await returns what is to be written next: an event, or a heartbeat while the key is good.
func (a *API) await(ctx context.Context, r *http.Request, arrivals <-chan arrival, tick <-chan time.Time) (frame []byte, ended bool, err error) {
	select {
	case next, more := <-arrivals:
		switch {
		case !more:
			return nil, false, errNoMore
		case next.err != nil:
			return nil, false, next.err
		}
		frame, err = next.event.Append(nil)
		return frame, remoteagent.IsTerminal(next.event.Body), err
	case <-tick:
		if _, err := a.verify(r); err != nil {
			return nil, false, err
		}
		frame, err = sse.AppendComment(nil, "heartbeat")
		return frame, false, err
	case <-a.stopping:
		return nil, false, errStopping
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// sseWriter writes frames of server-sent events.
type sseWriter struct {
	http.ResponseWriter
	begun bool
}

func (s *sseWriter) write(frame []byte) bool {
	if !s.begun {
		s.begun = true
		s.Header().Set("Content-Type", sse.ContentType)
		s.Header().Set("Cache-Control", "no-store")
		s.Header().Set("X-Accel-Buffering", "no")
		s.WriteHeader(http.StatusOK)
	}
	connection := http.NewResponseController(s.ResponseWriter)
	_ = connection.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.Write(frame); err != nil { //nolint:gosec // frames of server-sent events are not HTML
		return false
	}
	return connection.Flush() == nil
}
