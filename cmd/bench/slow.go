package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/stack"
)

// slow has many readers ask for one large, compressible log and take nothing of it. It measures what the gateway holds
// meanwhile, and how much later other requests begin than without these readers, in turns on one stack.
type slow struct {
	peak        []float64 // most bytes of the gateway in a round
	alone, amid percentiles
	ratios      []float64 // p99 amid the readers over p99 alone, a round each
}

const (
	slowReaders  = 1000
	slowDeltas   = 1200
	slowBytes    = 5000 // of a delta: 6 MB in all
	slowRequests = 100
	// slowSettle is how long the readers are open before the other requests are measured: sockets fill meanwhile.
	slowSettle = 2 * time.Second
	slowDial   = 5 * time.Second
)

func (x *slow) round(ctx context.Context, l *lab) (err error) {
	s, err := l.newStack(ctx, stack.Options{Slots: 32})
	if err != nil {
		return err
	}
	defer s.Stop()
	large := streamOf(s.URL, slowDeltas, 0, slowBytes)
	large.Deltas = -1 // a runner divides long ones
	log, err := l.client.Read(ctx, large)
	if err != nil {
		return err
	}
	if err := s.Quiet(ctx); err != nil {
		return err
	}
	alone, _, err := x.begin(ctx, l, s)
	if err != nil {
		return err
	}
	readers, err := openSlow(ctx, s.URL, log.RequestID)
	defer func() {
		for _, c := range readers {
			err = errors.Join(err, c.Close())
		}
	}()
	if err != nil {
		return err
	}
	time.Sleep(slowSettle)
	amid, peak, err := x.begin(ctx, l, s)
	if err != nil {
		return err
	}
	x.alone.add(alone)
	x.amid.add(amid)
	x.peak = append(x.peak, float64(peak))
	x.ratios = append(x.ratios, float64(figure.Percentile(amid, 0.99))/float64(figure.Percentile(alone, 0.99)))
	return nil
}

// begin sends small requests, one after the other, and returns when each began and the most that the gateway held.
func (x *slow) begin(ctx context.Context, l *lab, s *stack.Stack) (took []time.Duration, peak int64, err error) {
	for range slowRequests {
		result, err := l.client.Read(ctx, prompt(s.URL, "/say hello"))
		if err != nil {
			return nil, 0, err
		}
		l.checked.Add(int64(result.Events))
		took = append(took, result.FirstEvent)
		held, err := s.RSS(stack.Gateway)
		if err != nil {
			return nil, 0, fmt.Errorf("memory of the gateway: %w", err)
		}
		peak = max(peak, held)
	}
	return took, peak, nil
}

// openSlow opens connections that each ask for the log and read nothing. It returns those that are open in any case.
func openSlow(ctx context.Context, gateway, requestID string) (readers []net.Conn, err error) {
	at, err := url.Parse(gateway)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Timeout: slowDial}
	for range slowReaders {
		c, err := dialer.DialContext(ctx, "tcp", at.Host)
		if err != nil {
			return readers, fmt.Errorf("open reader %d: %w", len(readers), err)
		}
		readers = append(readers, c)
		if _, err := fmt.Fprintf(c, "GET /v1/requests/%s/stream HTTP/1.1\r\nHost: %s\r\n\r\n", requestID, at.Host); err != nil {
			return readers, fmt.Errorf("ask as reader %d: %w", len(readers), err)
		}
	}
	return readers, nil
}

func (x *slow) report(r *report) {
	const mega = 1e6
	table := figure.Table{Head: []string{fmt.Sprintf("%d readers that take nothing", slowReaders), "alone", "amid them"}}
	table.Add("another request, first event, p50 ms", figure.Number(figure.Median(x.alone.p50)), figure.Number(figure.Median(x.amid.p50)))
	table.Add("another request, first event, p99 ms", figure.Number(figure.Median(x.alone.p99)), figure.Number(figure.Median(x.amid.p99)))
	table.Add("gateway, most MB", "", figure.Number(slices.Max(x.peak)/mega))
	r.section("Slow readers", table, fmt.Sprintf("Each asks for the same log of %d MB. Ratio of the p99 in the rounds: %.2f to %.2f.",
		slowDeltas*slowBytes/1_000_000, slices.Min(x.ratios), slices.Max(x.ratios)))
	r.goal(goal{"P11", "memory of a gateway with 1,000 readers that take nothing", slices.Max(x.peak) / mega, 512, "MB", atMost})
	r.goal(goal{"P12", "first event amid such readers over that without, p99", figure.Median(x.ratios), 3, "", atMost})
}
