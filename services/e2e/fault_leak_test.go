package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// holdings is what processes hold on to, by name.
type holdings map[string]float64

// slack is how much more there may be at the end than at the start: connections that idle, buffers that grew once.
func slack(name string, base float64) float64 {
	switch {
	case strings.HasSuffix(name, " memory"):
		return 64 << 20
	case strings.HasSuffix(name, " consumers"), strings.HasSuffix(name, " connections"):
		return 0
	default:
		return 10 + base/10
	}
}

// holds looks at every process: goroutines, file descriptors and memory of the services; connections, subscriptions and
// consumers of nats-server.
func (l lab) holds(t *testing.T) holdings {
	t.Helper()
	held := holdings{}
	for _, name := range services {
		for i, p := range l.Processes(name) {
			who := fmt.Sprint(name, " ", i)
			held[who+" goroutines"] = metric(t, p, "go_goroutines", "")
			held[who+" files"] = metric(t, p, "process_open_fds", "")
			held[who+" memory"] = metric(t, p, "process_resident_memory_bytes", "")
		}
	}
	type server struct {
		Connections   float64 `json:"connections"`
		Subscriptions float64 `json:"subscriptions"`
	}
	varz, _ := answer[server](t, l.NATSMonitor+"/varz")
	held["nats-server connections"], held["nats-server subscriptions"] = varz.Connections, varz.Subscriptions
	jsz, _ := answer[struct {
		Consumers float64 `json:"consumers"`
	}](t, l.NATSMonitor+"/jsz")
	held["nats-server consumers"] = jsz.Consumers
	return held
}

// leakRequests is how many requests the test of leaks makes.
func leakRequests(t *testing.T) int {
	t.Helper()
	text := os.Getenv("AGENTBUS_LEAK_REQUESTS")
	if text == "" {
		return 1000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("AGENTBUS_LEAK_REQUESTS is %q: %v", text, err)
	}
	return n
}

// TestNothingLeaks makes many requests whose clients leave at random, and looks whether every process lets go of what it
// held for them. AGENTBUS_LEAK_REQUESTS says how many.
func TestNothingLeaks(t *testing.T) {
	l := newLab(t, setup{database: database(t)})
	total := leakRequests(t)
	l.crowd(t, 200)
	quiet := l.quiet(t)
	l.crowd(t, total)
	var now holdings
	var grown []string
	deadline := time.Now().Add(2 * time.Minute)
	for {
		now, grown = l.holds(t), nil
		for name, base := range quiet {
			if now[name] > base+slack(name, base) {
				grown = append(grown, fmt.Sprintf("%s: %.0f, was %.0f", name, now[name], base))
			}
		}
		if len(grown) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	for name, base := range quiet {
		t.Logf("%s: %.0f before, %.0f after %d requests", name, base, now[name], total)
	}
	if len(grown) > 0 {
		t.Errorf("after %d requests:\n%s", total, strings.Join(grown, "\n"))
	}
}

// quiet waits until nothing runs and what is held does not change, and returns it.
func (l lab) quiet(t *testing.T) holdings {
	t.Helper()
	var held holdings
	eventually(t, time.Minute, func() error {
		before := l.holds(t)
		time.Sleep(3 * time.Second)
		held = l.holds(t)
		for name, was := range before {
			if !strings.HasSuffix(name, " memory") && held[name] != was {
				return fmt.Errorf("%s goes from %.0f to %.0f", name, was, held[name])
			}
		}
		return nil
	})
	return held
}

// crowd makes requests, 50 at a time. Of their clients some read all, some leave, some leave and come back, some abort.
func (l lab) crowd(t *testing.T, requests int) {
	t.Helper()
	jobs := make(chan int)
	var clients sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for range 50 {
		clients.Go(func() {
			for range jobs {
				if err := l.visit(t.Context()); err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range requests {
		jobs <- i
	}
	close(jobs)
	clients.Wait()
	if len(failed) > 0 {
		t.Fatalf("%d of %d visits failed, the first: %v", len(failed), requests, failed[0])
	}
}

func (l lab) visit(ctx context.Context) error {
	stay, leave := context.WithCancel(ctx)
	defer leave()
	var w *watch
	var err error
	for range 3 { // a client repeats what the gateway could not accept
		w, err = try(stay, http.MethodPost, l.URL+"/v1/agents/demo/stream", prompt("/say hello", `/tool clock {}`, "/stream 40 200"))
		if err == nil || !strings.Contains(err.Error(), "503 Service Unavailable") {
			break
		}
		time.Sleep(time.Second)
	}
	if err != nil {
		return err
	}
	kind := rand.IntN(4)
	if kind > 0 {
		select {
		case <-w.done:
		case <-time.After(rand.N(300 * time.Millisecond)):
		}
		leave()
	}
	<-w.done
	switch kind {
	case 2:
		_, err = l.persist(ctx, w.seen())
	case 3:
		var request *http.Request
		request, err = http.NewRequestWithContext(ctx, http.MethodPost, l.URL+"/v1/requests/"+w.seen().RequestID+"/abort", nil)
		if err != nil {
			return err
		}
		var response *http.Response
		if response, err = http.DefaultClient.Do(request); err == nil {
			err = response.Body.Close()
		}
	}
	return err
}
