package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/nats-io/nats.go/jetstream"
)

// accountLimit limits the account of the services, while the server has no limit.
const accountLimit = "{max_mem: 16MB, max_file: 24MB}"

// TestANearlyFullStoreIsReported fills the store up to a limit, and looks at what a gateway answers.
func TestANearlyFullStoreIsReported(t *testing.T) {
	for name, s := range map[string]setup{
		"the limit of the streams": {env: []string{"NATS_MAX_BYTES=16000000"}},
		"the limit of the account": {env: []string{"NATS_MAX_BYTES=-1"}, nats: accountLimit},
	} {
		t.Run(name, func(t *testing.T) {
			s.database = database(t)
			l := newLab(t, s)
			gateway := l.Processes("gateway")[0]
			l.answers(t, gateway.Admin, http.StatusOK, "ok\n")
			l.answers(t, l.URL, http.StatusOK, "ok\n")
			l.fill(t)
			l.answers(t, gateway.Admin, http.StatusServiceUnavailable, "streams: unavailable: the message bus is nearly full")
			l.answers(t, l.URL, http.StatusOK, "ok\nunavailable: the message bus is nearly full")
			if gateway.Wait(0) {
				t.Error("the gateway has ended")
			}
		})
	}
}

// TestAFullStoreTakesRequestsAgainOnceItHasRoom fills the store, makes room in it as an operator does, and expects the same
// processes to take requests again.
func TestAFullStoreTakesRequestsAgainOnceItHasRoom(t *testing.T) {
	for name, test := range map[string]struct {
		setup setup
		free  func(*testing.T, lab)
	}{
		"after its limit is raised": {setup{env: []string{"NATS_MAX_BYTES=16000000"}}, raiseLimit},
		"after a purge":             {setup{env: []string{"NATS_MAX_BYTES=-1"}, nats: accountLimit}, purge},
	} {
		t.Run(name, func(t *testing.T) {
			test.setup.database = database(t)
			l := newLab(t, test.setup)
			gateway := l.Processes("gateway")[0]
			before := l.post(t, 0, prompt("/say before")).end(t, time.Minute)
			l.fill(t)
			l.answers(t, gateway.Admin, http.StatusServiceUnavailable, "streams: unavailable: the message bus is nearly full")
			if _, refusal := l.background(t, prompt("/say refused")); refusal == nil {
				t.Error("a request was taken while the store was full")
			}
			test.free(t, l)
			l.answers(t, gateway.Admin, http.StatusOK, "ok\n")
			var requestID string
			eventually(t, time.Minute, func() error {
				id, refusal := l.background(t, requestBody(event.AgentRequest{
					ThreadID: before.ThreadID, Messages: []event.InputMessage{event.UserText("/say after")},
				}))
				if refusal != nil {
					return fmt.Errorf("got %s", refusal.Status)
				}
				requestID = id
				return nil
			})
			if got := answerText(l.resume(t, 0, requestID, "").end(t, time.Minute).done(t)); got != "after" {
				t.Errorf("got %q", got)
			}
			for _, service := range services {
				for _, p := range l.Processes(service) {
					if p.Wait(0) {
						t.Errorf("%s has ended", service)
					}
				}
			}
		})
	}
}

func raiseLimit(t *testing.T, l lab) {
	t.Helper()
	js, stream := l.events(t)
	config := stream.CachedInfo().Config
	config.MaxBytes *= 8
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
}

func purge(t *testing.T, l lab) {
	t.Helper()
	_, stream := l.events(t)
	if err := stream.Purge(t.Context(), jetstream.WithPurgeKeep(10)); err != nil {
		t.Fatal(err)
	}
}

// fill makes requests until one is refused for lack of room.
func (l lab) fill(t *testing.T) {
	t.Helper()
	for range 1000 {
		_, refusal := l.background(t, prompt("/say hello", noise(80_000)))
		if refusal != nil {
			if f := wantFault(t, refusal, http.StatusServiceUnavailable, apierr.Unavailable); !f.Retryable {
				t.Errorf("got %+v, want it retryable", f)
			}
			if refusal.Header.Get("Retry-After") == "" {
				t.Error("the refusal has no Retry-After")
			}
			return
		}
		time.Sleep(50 * time.Millisecond) // the gateway looks once a second and must not miss the last fifth
	}
	t.Fatal("1000 requests were taken")
}

// answers waits until /readyz of a server answers with a status and a text that begins with want.
func (l lab) answers(t *testing.T, server string, status int, want string) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/readyz", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != status || !strings.HasPrefix(string(text), want)) {
			err = fmt.Errorf("%s answers %s %q, want %d %q", request.URL, response.Status, text, status, want)
		}
		return err
	})
}
