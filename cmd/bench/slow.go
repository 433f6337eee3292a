package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/load"
	"github.com/agentbus/agentbus/cmd/bench/internal/stack"
)

// slow has many readers of one tenant request one large, compressible log without reading the response. It measures the
// highest memory of the gateway, and how much later the requests of another tenant start than just before the readers
// came. These requests are sent at a fixed rate, whether those before them have ended or not, from the moment of the
// last reader's request: so the cost of the readers' arrival counts as well.
type slow struct {
	peak        []float64 // highest memory of the gateway in a round, in bytes
	alone, amid percentiles
	middle      []float64 // per round, p50 with the readers divided by p50 without
	ratios      []float64 // the same for p99
}

const (
	slowReaders  = 1000
	slowDeltas   = 1200
	slowBytes    = 5000 // of a delta: 6 MB in all
	slowRequests = 1000
	slowGap      = 20 * time.Millisecond
	slowDial     = 5 * time.Second
	slowKeys     = 10 * time.Second // for the gateway to load a key
)

func (x *slow) round(ctx context.Context, l *environment) (err error) {
	s, err := l.newStack(ctx, stack.Options{Slots: 32, Keys: true, Profile: l.options.profile != ""})
	if err != nil {
		return err
	}
	defer s.Stop()
	large := streamOf(s.URL, slowDeltas, 0, slowBytes)
	large.Deltas = -1 // a runner splits long deltas
	if large.Key, err = newTenant(ctx, l, s, "slow"); err != nil {
		return err
	}
	small := prompt(s.URL, "/say hello")
	if small.Key, err = newTenant(ctx, l, s, "other"); err != nil {
		return err
	}
	log, err := l.client.Read(ctx, large)
	if err != nil {
		return err
	}
	if _, err := begin(ctx, l, slowRequests/10, small); err != nil { // warm-up
		return err
	}
	if err := s.Quiet(ctx); err != nil {
		return err
	}
	alone, err := begin(ctx, l, slowRequests, small)
	if err != nil {
		return err
	}
	readers, err := openSlow(ctx, s.URL, log.RequestID, large.Key)
	defer func() {
		for _, c := range readers {
			err = errors.Join(err, c.Close())
		}
	}()
	if err != nil {
		return err
	}
	amid, err := begin(ctx, l, slowRequests, small)
	if err != nil {
		return err
	}
	peak, err := s.PeakRSS(stack.Gateway)
	if err != nil {
		return fmt.Errorf("memory of the gateway: %w", err)
	}
	x.add(alone, amid, peak)
	return l.profile(ctx, s, "slow")
}

func (x *slow) add(alone, amid []time.Duration, peak int64) {
	x.alone.add(alone)
	x.amid.add(amid)
	x.peak = append(x.peak, float64(peak))
	ratio := func(p float64) float64 {
		return float64(figure.Percentile(amid, p)) / float64(figure.Percentile(alone, p))
	}
	x.middle, x.ratios = append(x.middle, ratio(0.50)), append(x.ratios, ratio(0.99))
}

// newTenant returns a key of a new tenant that the gateway accepts.
func newTenant(ctx context.Context, l *environment, s *stack.Stack, tenant string) (string, error) {
	key, err := s.Key(ctx, tenant)
	if err != nil {
		return "", err
	}
	probe := prompt(s.URL, "/say hello")
	probe.Key = key
	for deadline := time.Now().Add(slowKeys); ; time.Sleep(50 * time.Millisecond) {
		if _, err = l.client.Read(ctx, probe); err == nil || time.Now().After(deadline) {
			return key, err
		}
	}
}

// begin sends n requests at a fixed rate and returns the time until each started.
func begin(ctx context.Context, l *environment, n int, r load.Request) ([]time.Duration, error) {
	results, _, err := l.all(ctx, n, slowGap, r)
	if err != nil {
		return nil, err
	}
	took := make([]time.Duration, n)
	for i, result := range results {
		took[i] = result.FirstEvent
	}
	return took, nil
}

// openSlow opens connections that each request the log and read nothing. It returns the open ones in any case.
func openSlow(ctx context.Context, gateway, requestID, key string) (readers []net.Conn, err error) {
	at, err := url.Parse(gateway)
	if err != nil {
		return nil, err
	}
	ask := fmt.Sprintf("GET /v1/requests/%s/stream HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n\r\n", requestID, at.Host, key)
	dialer := net.Dialer{Timeout: slowDial}
	for range slowReaders {
		c, err := dialer.DialContext(ctx, "tcp", at.Host)
		if err != nil {
			return readers, fmt.Errorf("open reader %d: %w", len(readers), err)
		}
		readers = append(readers, c)
		if _, err := io.WriteString(c, ask); err != nil {
			return readers, fmt.Errorf("ask as reader %d: %w", len(readers), err)
		}
	}
	return readers, nil
}

func (x *slow) report(r *report) {
	const mega = 1e6
	table := figure.Table{Head: []string{fmt.Sprintf("%d readers that take nothing", slowReaders), "alone", "amid them"}}
	table.Add("another tenant, first event, p50 ms", figure.Number(figure.Median(x.alone.p50)), figure.Number(figure.Median(x.amid.p50)))
	table.Add("another tenant, first event, p99 ms", figure.Number(figure.Median(x.alone.p99)), figure.Number(figure.Median(x.amid.p99)))
	table.Add("gateway, most MB", "", figure.Number(slices.Max(x.peak)/mega))
	r.section("Slow readers", table, fmt.Sprintf("Each asks for the same log of %d MB. Ratio of the p50 in the rounds: %.2f to %.2f; of the p99: %.2f to %.2f.",
		slowDeltas*slowBytes/1_000_000, slices.Min(x.middle), slices.Max(x.middle), slices.Min(x.ratios), slices.Max(x.ratios)))
	r.goal(goal{"P11", "memory of a gateway with 1,000 readers that take nothing", slices.Max(x.peak) / mega, 512, "MB", atMost})
	r.goal(goal{"P12", "first event amid such readers over that without, p99", figure.Median(x.ratios), 3, "", atMost})
}
