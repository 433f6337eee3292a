package deploytest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/nats-io/nats-server/v2/server"
)

// broker is a NATS server with the streams that the services need.
type broker struct {
	nats *server.Server
	bus  *bus.Bus
}

func startBroker(t *testing.T) broker {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, HTTPHost: "127.0.0.1", HTTPPort: server.RANDOM_PORT,
		JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.StartMonitoring(); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready after a minute")
	}
	b, err := bus.Connect(t.Context(), bus.Options{URL: s.ClientURL(), Name: "deploytest"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	if err := b.Provision(t.Context(), bus.Storage{MaxBytes: 64 << 20}); err != nil {
		t.Fatal(err)
	}
	return broker{s, b}
}

// lag is what the scaler nats-jetstream of KEDA reads: the messages that wait and those that run, from /jsz.
func (b broker) lag(t *testing.T, stream, consumer string) int {
	t.Helper()
	address := fmt.Sprintf("http://%s/jsz?acc=$G&consumers=true&config=true", b.nats.MonitorAddr())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer struct {
		Accounts []struct {
			Streams []struct {
				Name      string `json:"name"`
				Consumers []struct {
					Name    string `json:"name"`
					Pending int    `json:"num_pending"`
					Running int    `json:"num_ack_pending"`
				} `json:"consumer_detail"`
			} `json:"stream_detail"`
		} `json:"account_details"`
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	for _, s := range answer.Accounts[0].Streams {
		for _, c := range s.Consumers {
			if s.Name == stream && c.Name == consumer {
				return c.Pending + c.Running
			}
		}
	}
	t.Fatalf("/jsz has no consumer %s of the stream %s", consumer, stream)
	return 0
}

// await waits until the lag is what it should be.
func (b broker) await(t *testing.T, s scaled, want int, when string) {
	t.Helper()
	got := -1
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if got = b.lag(t, s.stream, s.consumer); got == want {
			return
		}
	}
	t.Fatalf("%s: the lag of %s is %d, want %d", when, s.consumer, got, want)
}

// scaled is a ScaledObject.
type scaled struct {
	target, stream, consumer, account, endpoint string
	threshold                                   int
}

func scaledObjects(t *testing.T) []scaled {
	t.Helper()
	var all []scaled
	for _, o := range parse(t, read(t, "k8s/scaling/workers.yaml")) {
		var k struct {
			Spec struct {
				Target struct {
					Name string `json:"name"`
				} `json:"scaleTargetRef"`
				Triggers []struct {
					Type     string            `json:"type"`
					Metadata map[string]string `json:"metadata"`
				} `json:"triggers"`
			} `json:"spec"`
		}
		if err := json.Unmarshal(o.text, &k); err != nil {
			t.Fatal(err)
		}
		trigger := k.Spec.Triggers[0]
		threshold, err := strconv.Atoi(trigger.Metadata["lagThreshold"])
		if err != nil || trigger.Type != "nats-jetstream" || len(k.Spec.Triggers) != 1 {
			t.Fatalf("%s: %v, triggers %+v", o.name, err, k.Spec.Triggers)
		}
		m := trigger.Metadata
		all = append(all, scaled{k.Spec.Target.Name, m["stream"], m["consumer"], m["account"], m["natsServerMonitoringEndpoint"], threshold})
	}
	if len(all) != 2 {
		t.Fatalf("%d ScaledObjects, want those of agent-runner and tool-executor", len(all))
	}
	return all
}

func TestLagOfKEDAFollowsTheLoad(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	for _, s := range scaledObjects(t) {
		b.await(t, s, 0, "without work")
		count := 3 * s.threshold
		for i := range count {
			send(t, b.bus, s.target, i)
		}
		b.await(t, s, count, "before a process runs")
		started, release := make(chan struct{}, count), make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- work(ctx, b.bus, s.target, s.threshold, started, release) }() // ends with stop
		for range s.threshold {
			<-started
		}
		// What a busy process runs counts too, so that the lag still calls for three processes.
		b.await(t, s, count, "while the first ones run")
		close(release)
		b.await(t, s, 0, "after all have ended")
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// send sends the i-th request, of a tenant of its own, or the i-th call.
func send(t *testing.T, b *bus.Bus, service string, i int) {
	t.Helper()
	var err error
	if service == "agent-runner" {
		request := record.Accepted{Tenant: fmt.Sprintf("t%d", i), RequestID: fmt.Sprintf("r%d", i), ThreadID: "th", AgentID: "demo"}
		err = b.Start(t.Context(), request, 0)
	} else {
		err = b.CallTool(t.Context(), "builtin", record.ToolCall{Tenant: "t", RequestID: "r", ToolCallID: fmt.Sprintf("c%d", i)})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// work takes requests or calls as a process of the service does, and ends none of them before release is closed. Each sends to
// started.
func work(ctx context.Context, b *bus.Bus, service string, slots int, started chan<- struct{}, release <-chan struct{}) error {
	wait := func(ctx context.Context) error {
		started <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if service == "agent-runner" {
		return b.ConsumeRequests(ctx, slots, func(ctx context.Context, _ record.Start) error { return wait(ctx) })
	}
	return b.ConsumeToolCalls(ctx, slots, func(ctx context.Context, _ record.ToolCall) error { return wait(ctx) })
}

func TestScaledObjectsReadTheServers(t *testing.T) {
	t.Parallel()
	conf := string(read(t, "k8s/nats/nats.conf"))
	for _, s := range scaledObjects(t) {
		if s.target != s.consumer {
			t.Errorf("%s scales by the consumer %s", s.target, s.consumer)
		}
		if !strings.Contains(conf, "  "+s.account+" {\n    jetstream: enabled") {
			t.Errorf("%s: nats.conf has no account %s with JetStream", s.target, s.account)
		}
		if s.endpoint != "nats-headless.agentbus.svc.cluster.local:8222" || !strings.Contains(conf, "http: 8222") ||
			!strings.Contains(conf, "nats-0.nats-headless:6222") || !strings.Contains(conf, "no_advertise: true") {
			t.Errorf("%s: KEDA does not find the servers at %s", s.target, s.endpoint)
		}
		if slots, err := strconv.Atoi(setting(t, s.target, "SLOTS", nil)); err != nil || s.threshold >= slots {
			t.Errorf("%s: with a threshold of %d and %d slots, no process is added before all slots are in use", s.target, s.threshold, slots)
		}
	}
}
