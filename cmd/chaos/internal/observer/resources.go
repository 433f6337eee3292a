package observer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/go-json-experiment/json"
)

// held is how much of something a process holds, and which where that is known.
type held struct {
	of, name string
	amount   float64
	slack    float64
	which    []string
}

// openFilesMetric is the metric of how many descriptors a process holds.
const openFilesMetric = "process_open_fds"

// measured are the metrics that are read of each service, and the growth of each that does not count as a leak.
var measured = map[string]struct {
	name  string
	slack float64
}{
	"go_goroutines":                 {"goroutines", 40},
	openFilesMetric:                 {"file descriptors", 40},
	"process_resident_memory_bytes": {"bytes of memory", 96 << 20},
}

// Baseline notes what the processes hold before the run.
func (w *Observer) Baseline(ctx context.Context) error {
	var err error
	w.before, err = w.measure(ctx)
	return err
}

// RestWait is how long processes may take to give back what they held. NATS tries again after up to a minute to drop a
// consumer, where it had no leader to ask.
const RestWait = 90 * time.Second

// Held adds what the processes still hold, and waits at most for timeout until they have given back what they held.
// It reports whether they have.
func (w *Observer) Held(ctx context.Context, run *check.Run, timeout time.Duration) (back bool, err error) {
	deadline := time.Now().Add(timeout)
	for {
		after, err := w.measure(ctx)
		if err != nil {
			return false, err
		}
		resources, over := pair(w.before, after)
		if !over || !time.Now().Before(deadline) {
			run.Resources = resources
			return !over, nil
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-time.After(lookGap):
		}
	}
}

func pair(before, after []held) (resources []check.Resource, over bool) {
	first := map[[2]string]held{}
	for _, h := range before {
		first[[2]string{h.of, h.name}] = h
	}
	for _, h := range after {
		was := first[[2]string{h.of, h.name}]
		r := check.Resource{Of: h.of, Name: h.name, Before: was.amount, After: h.amount, Slack: h.slack}
		r.New = added(was.which, h.which)
		resources = append(resources, r)
		over = over || r.After > r.Before+r.Slack
	}
	return resources, over
}

// added lists what is in after and not in before, each with how many times more where that is not once.
func added(before, after []string) []string {
	more := map[string]int{}
	for _, one := range after {
		more[one]++
	}
	for _, one := range before {
		more[one]--
	}
	var all []string
	for _, one := range slices.Sorted(maps.Keys(more)) {
		switch n := more[one]; {
		case n == 1:
			all = append(all, one)
		case n > 1:
			all = append(all, fmt.Sprintf("%d times %s", n, one))
		}
	}
	return all
}

func (w *Observer) measure(ctx context.Context) ([]held, error) {
	var all []held
	for _, kind := range testcluster.Services() {
		for _, n := range w.Cluster.Find(kind) {
			some, err := measureService(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("metrics of %s: %w", n.Name, err)
			}
			all = append(all, some...)
		}
	}
	some, err := w.measureNATS(ctx)
	return append(all, some...), err
}

func measureService(ctx context.Context, n *cluster.Node) ([]held, error) {
	body, err := get(ctx, n.Admin+"/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	var all []held
	for lines := bufio.NewScanner(body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		what, ok := measured[name]
		if !ok {
			continue
		}
		amount, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		one := held{of: n.Name, name: what.name, amount: amount, slack: what.slack}
		if name == openFilesMetric {
			one.which = openFiles(n)
		}
		all = append(all, one)
	}
	return all, nil
}

// measureNATS counts the resources of clients on the servers.
func (w *Observer) measureNATS(ctx context.Context) ([]held, error) {
	var consumers []string
	connections, subscriptions := map[string]float64{}, map[string]float64{}
	for _, n := range w.Cluster.Find(testcluster.NATS) {
		some, err := listConsumers(ctx, n.Name, n.Admin)
		if err != nil {
			return nil, err
		}
		consumers = append(consumers, some...)
		var clients struct {
			Connections []struct {
				Name          string  `json:"name"`
				Subscriptions float64 `json:"subscriptions"`
			} `json:"connections"`
		}
		if err := getJSON(ctx, n.Admin+"/connz", &clients); err != nil {
			return nil, err
		}
		for _, c := range clients.Connections {
			connections[c.Name]++
			subscriptions[c.Name] += c.Subscriptions
		}
	}
	all := []held{{of: "nats", name: "consumers", amount: float64(len(consumers)), which: consumers}}
	for _, kind := range testcluster.Services() {
		of := "nats, for " + string(kind) + "," // the name of the connection
		all = append(all,
			held{of: of, name: "connections", amount: connections[string(kind)]},
			held{of: of, name: "subscriptions", amount: subscriptions[string(kind)], slack: 16})
	}
	return all, nil
}

// listConsumers describes the consumers of a server, except our own.
func listConsumers(ctx context.Context, server, monitor string) ([]string, error) {
	var js struct {
		Accounts []struct {
			Streams []struct {
				Consumers []struct {
					Stream  string    `json:"stream_name"`
					Name    string    `json:"name"`
					Created time.Time `json:"created"`
					Config  struct {
						Durable           string `json:"durable_name"`
						DeliverSubject    string `json:"deliver_subject"`
						InactiveThreshold int64  `json:"inactive_threshold"` // in nanoseconds
					} `json:"config"`
				} `json:"consumer_detail"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := getJSON(ctx, monitor+"/jsz?accounts=true&streams=true&consumers=true&config=true", &js); err != nil {
		return nil, err
	}
	var all []string
	for _, account := range js.Accounts {
		for _, stream := range account.Streams {
			for _, c := range stream.Consumers {
				if strings.HasPrefix(c.Name, ownConsumers) {
					continue
				}
				kind := "durable"
				if c.Config.Durable == "" {
					kind = fmt.Sprintf("ephemeral, to %q, dropped when idle for %v",
						c.Config.DeliverSubject, time.Duration(c.Config.InactiveThreshold))
				}
				all = append(all, fmt.Sprintf("%s of %s on %s (%s, made at %s)",
					c.Name, c.Stream, server, kind, c.Created.Format(time.TimeOnly)))
			}
		}
	}
	return all, nil
}

func getJSON(ctx context.Context, url string, into any) error {
	body, err := get(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return json.UnmarshalRead(body, into)
}

func get(ctx context.Context, url string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		cancel()
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		cancel()
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		cancel()
		_ = response.Body.Close()
		return nil, fmt.Errorf("%w: %s answers %s", errBadAnswer, url, response.Status)
	}
	return closer{response.Body, cancel}, nil
}

// closer ends a response and its context.
type closer struct {
	io.ReadCloser
	cancel func()
}

func (c closer) Close() error {
	defer c.cancel()
	return c.ReadCloser.Close()
}
