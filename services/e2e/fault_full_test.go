package e2e

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// background starts a request without a reader, and returns it or the answer that refused it.
func (l lab) background(t *testing.T, body string, headers ...header) (requestID string, refusal *http.Response) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.URL+"/v1/agents/demo/requests", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		request.Header.Set(h[0], h[1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusAccepted {
		return "", response
	}
	return response.Header.Get("X-Request-Id"), nil
}

// noise is text that cannot be compressed to nothing.
func noise(size int) string {
	text := make([]byte, size)
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyz012345"[rand.IntN(32)]
	}
	return string(text)
}

func TestAFullStreamRefusesNewRequestsBeforeRunningOnesSuffer(t *testing.T) {
	l := newLab(t, setup{database: database(t), env: []string{"NATS_MAX_BYTES=32000000"}})
	runs := l.post(t, 0, prompt("/stream 1200 50", "/say after"))
	runs.until(t, 10)
	key := header{"Idempotency-Key", newKey()}
	first, _ := l.background(t, prompt("/say first"), key)
	taken := 0
	for {
		requestID, refusal := l.background(t, prompt("/say hello", noise(80_000)))
		if refusal != nil {
			if f := wantFault(t, refusal, http.StatusServiceUnavailable, apierr.Unavailable); !f.Retryable {
				t.Errorf("got %+v, want it retryable", f)
			}
			if refusal.Header.Get("Retry-After") == "" {
				t.Error("the refusal does not say when to come back")
			}
			break
		}
		if taken++; taken > 1000 {
			t.Fatalf("1000 requests were taken, the last one %s", requestID)
		}
		time.Sleep(50 * time.Millisecond) // the stream must not fill between two looks
	}
	again := l.resume(t, 0, first, "").end(t, time.Minute)
	if again.done(t).FinishReason != event.FinishStop {
		t.Error("a request that was taken before cannot be read")
	}
	if replayed, refusal := l.background(t, prompt("/say first"), key); refusal != nil || replayed != first {
		t.Errorf("the retry of a request that was taken: got %s, want %s", replayed, first)
	}
	l.finished(t, runs.end(t, 2*time.Minute))
	t.Logf("%d requests were taken", taken)
}

func TestAFullQueueRefusesAndLosesNothing(t *testing.T) {
	l := newLab(t, setup{database: database(t), env: []string{"NATS_MAX_QUEUE=50"}})
	runner := l.Processes("agent-runner")[0]
	runner.Kill()
	var taken []string
	for {
		requestID, refusal := l.background(t, prompt("/say hello"))
		if refusal != nil {
			wantFault(t, refusal, http.StatusServiceUnavailable, apierr.Unavailable)
			break
		}
		if taken = append(taken, requestID); len(taken) > 50 {
			t.Fatal("more requests were taken than the queue holds")
		}
		time.Sleep(100 * time.Millisecond) // the queue must not fill between two looks
	}
	start(t, runner)
	for _, requestID := range taken {
		l.resume(t, 0, requestID, "").end(t, time.Minute).done(t)
	}
	eventually(t, 30*time.Second, func() error {
		w, err := try(t.Context(), http.MethodPost, l.URL+"/v1/agents/demo/stream", prompt("/say hello"))
		if err == nil {
			w.end(t, time.Minute)
		}
		return err
	})
	t.Logf("%d requests were taken", len(taken))
}
