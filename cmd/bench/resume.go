package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/load"
	"github.com/agentbus/agentbus/cmd/bench/internal/publish"
	"golang.org/x/sync/errgroup"
)

// resume resumes a finished request whose log is interleaved with others, one event per frame. This is the log of a
// slow model, which is the most expensive to read.
type resume struct {
	requestID string
	ids       []string
	frames    int
	near, far percentiles
}

const (
	resumeEvents = 2020
	resumeRate   = 500 // per second: slow enough for one event per frame
	resumeOthers = 100
	nearEvents   = 20
	farEvents    = 2000
	nearTimes    = 100
	farTimes     = 30
)

func (x *resume) round(ctx context.Context, l *environment) error {
	if x.requestID == "" {
		if err := x.prepare(ctx, l); err != nil {
			return err
		}
	}
	near, err := x.read(ctx, l, nearEvents, nearTimes)
	if err != nil {
		return err
	}
	far, err := x.read(ctx, l, farEvents, farTimes)
	if err != nil {
		return err
	}
	x.near.add(near)
	x.far.add(far)
	return nil
}

// prepare writes the logs concurrently.
func (x *resume) prepare(ctx context.Context, l *environment) error {
	const besides = 4 // metadata, the start and the stop of the text, done
	main := streamOf(l.stack.URL, resumeEvents-besides, resumeRate, l.delta)
	main.Keep = true
	seconds := float64(resumeEvents) / resumeRate
	other := streamOf(l.stack.URL, int(10*seconds), 10, l.delta)
	var result load.Result
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		result, err = l.client.Read(groupCtx, main)
		return err
	})
	group.Go(func() error {
		_, _, err := l.all(groupCtx, resumeOthers, time.Millisecond, other)
		return err
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if result.Events != resumeEvents {
		return fmt.Errorf("the log has %d events for clients, want %d", result.Events, resumeEvents)
	}
	if result.RequestID == "" {
		return errors.New("the answer has no X-Request-Id")
	}
	conn, err := publish.Dial(ctx, l.stack.NATSAddr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if x.frames, err = conn.Messages("AGENTBUS_EVENTS", "agentbus.event.*."+result.RequestID); err != nil {
		return err
	}
	x.requestID, x.ids = result.RequestID, result.IDs
	return l.stack.Quiet(ctx)
}

// read resumes with n remaining events.
func (x *resume) read(ctx context.Context, l *environment, n, times int) ([]time.Duration, error) {
	after := x.ids[len(x.ids)-n-1]
	request := load.Request{
		Method: http.MethodGet, Deltas: -1,
		URL: l.stack.URL + "/v1/requests/" + x.requestID + "/stream?after=" + url.QueryEscape(after),
	}
	var took []time.Duration
	for range times {
		result, err := l.client.Read(ctx, request)
		if err != nil {
			return nil, err
		}
		if result.Events != n {
			return nil, fmt.Errorf("resumed after %s: got %d events, want %d", after, result.Events, n)
		}
		l.checked.Add(int64(n))
		took = append(took, result.Whole)
	}
	return took, nil
}

func (x *resume) report(r *report) {
	table := figure.Table{Head: []string{"resume until the end", "p50 ms", "p99 ms"}}
	table.Add("20 events to go", figure.Number(figure.Median(x.near.p50)), figure.Number(figure.Median(x.near.p99)))
	table.Add("2,000 events to go", figure.Number(figure.Median(x.far.p50)), figure.Number(figure.Median(x.far.p99)))
	note := fmt.Sprintf("The log has %d events in %d frames, between those of %d others.", resumeEvents, x.frames, resumeOthers)
	r.section("Resume", table, note)
	r.goal(goal{"P7", "resume with 20 events to go, p50", figure.Median(x.near.p50), 3, "ms", atMost})
	r.goal(goal{"P7", "resume with 2,000 events to go, p50", figure.Median(x.far.p50), 40, "ms", atMost})
}
