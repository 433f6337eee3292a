package witness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/cmd/chaos/internal/cluster"
	"github.com/go-json-experiment/json"
)

// held is how much of something a process holds.
type held struct {
	of, name string
	amount   float64
	slack    float64
}

// measured is what is asked of each service's metrics, and how much more of it is no leak.
var measured = map[string]struct {
	name  string
	slack float64
}{
	"go_goroutines":                 {"goroutines", 40},
	"process_open_fds":              {"file descriptors", 40},
	"process_resident_memory_bytes": {"bytes of memory", 96 << 20},
}

// Baseline notes what the processes hold before the run.
func (w *Witness) Baseline(ctx context.Context) error {
	var err error
	w.before, err = w.measure(ctx)
	return err
}

// restWait is how long processes may take to give back what they held.
const restWait = 30 * time.Second

// compare measures again, and waits a while for what is held no longer.
func (w *Witness) compare(ctx context.Context) ([]check.Resource, error) {
	deadline := time.Now().Add(restWait)
	for {
		after, err := w.measure(ctx)
		if err != nil {
			return nil, err
		}
		resources, over := pair(w.before, after)
		if !over || time.Now().After(deadline) {
			return resources, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookGap):
		}
	}
}

func pair(before, after []held) (resources []check.Resource, over bool) {
	amounts := map[[2]string]float64{}
	for _, h := range before {
		amounts[[2]string{h.of, h.name}] = h.amount
	}
	for _, h := range after {
		r := check.Resource{Of: h.of, Name: h.name, Before: amounts[[2]string{h.of, h.name}], After: h.amount, Slack: h.slack}
		resources = append(resources, r)
		over = over || r.After > r.Before+r.Slack
	}
	return resources, over
}

func (w *Witness) measure(ctx context.Context) ([]held, error) {
	var all []held
	for _, kind := range cluster.Services() {
		for _, n := range w.Cluster.Find(kind) {
			some, err := measureService(ctx, n)
			if err != nil {
				return nil, fmt.Errorf("metrics of %s: %w", n.Name(), err)
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
		all = append(all, held{n.Name(), what.name, amount, what.slack})
	}
	return all, nil
}

// measureNATS counts what stands on the servers for clients: consumers must be exactly those that were there before.
func (w *Witness) measureNATS(ctx context.Context) ([]held, error) {
	consumers := 0.0
	connections, subscriptions := map[string]float64{}, map[string]float64{}
	for _, n := range w.Cluster.Find(cluster.NATS) {
		var js struct {
			Consumers float64 `json:"consumers"`
		}
		if err := getJSON(ctx, n.Admin+"/jsz", &js); err != nil {
			return nil, err
		}
		consumers += js.Consumers
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
	all := []held{{"nats", "consumers", consumers, 0}}
	for _, kind := range cluster.Services() {
		name := string(kind) // as it tells the server
		all = append(all,
			held{"nats, for " + name + ",", "connections", connections[name], 0},
			held{"nats, for " + name + ",", "subscriptions", subscriptions[name], 16})
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
