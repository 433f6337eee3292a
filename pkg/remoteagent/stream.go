package remoteagent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/sse"
)

const (
	firstWait = 250 * time.Millisecond // before a cut stream is taken up again
	maxWait   = 10 * time.Second
)

var errCut = errors.New("the connection was cut before the end of the task")

// Stream yields the events of a task after number after (0 = from the first), each once and in order, until the
// terminal one. It resumes a cut connection by Last-Event-ID. After an error the task may continue, and Stream may be
// called again. Ending the iteration does not cancel the task.
func (c *Client) Stream(ctx context.Context, taskID string, after uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		s := stream{client: c, path: taskPath(taskID) + "/stream", last: after}
		if err := s.follow(ctx, yield); err != nil {
			yield(Event{}, fmt.Errorf("follow task %.64s: %w", taskID, err))
		}
	}
}

// stream is a task's events over as many connections as it takes.
type stream struct {
	client *Client
	path   string
	last   uint64 // number of the newest event that was yielded
	over   bool   // the terminal event has come, or the caller has left
}

func (s *stream) follow(ctx context.Context, yield func(Event, error) bool) error {
	wait, vain := firstWait, 0
	for {
		before := s.last
		err := s.connection(ctx, yield)
		if s.over {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		refusal, refused := errors.AsType[*Refusal](err)
		if refused && refusal.HTTP < http.StatusInternalServerError && refusal.HTTP != http.StatusTooManyRequests {
			return err
		}
		if s.last > before {
			wait, vain = firstWait, 0
		}
		if vain++; vain > s.client.Attempts {
			return err
		}
		pause := wait
		if refused {
			pause = max(wait, refusal.RetryAfter)
		}
		if !sleep(ctx, pause) {
			return context.Cause(ctx)
		}
		wait = min(2*wait, maxWait)
	}
}

// connection yields what comes over one connection. It returns nil only when the stream is over.
func (s *stream) connection(ctx context.Context, yield func(Event, error) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watchdog := time.AfterFunc(s.client.Idle, cancel) // ends whatever waits below
	defer watchdog.Stop()
	header := http.Header{
		"Accept": {sse.ContentType}, "Cache-Control": {"no-store"},
		"Last-Event-ID": {strconv.FormatUint(s.last, 10)}, // also 0: of a finished task we want more than the result
	}
	request, err := s.client.newRequest(ctx, http.MethodGet, s.path, header, nil)
	if err != nil {
		return err
	}
	response, err := s.client.send(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent { // the caller has seen the end before
		s.over = true
		return nil
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != sse.ContentType {
		return fmt.Errorf("the answer is %q and no stream of events; is %s an agent server?", kind, s.client.base)
	}
	frames := sse.NewReader(sse.Alive(response.Body, func() { watchdog.Reset(s.client.Idle) }))
	for !s.over {
		frame, err := frames.Next()
		if err != nil {
			return fmt.Errorf("%w: %w", errCut, err)
		}
		e, err := Decode(frame)
		if err != nil {
			return err
		}
		if e.ID <= s.last {
			continue
		}
		s.last = e.ID
		s.over = !yield(e, nil) || IsTerminal(e.Body)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
