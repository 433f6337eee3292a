package gateway_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// received is a notification.
type received struct {
	header http.Header
	body   string
}

// state returns the state of the task that the notification contains.
func (r received) state(t *testing.T) string {
	t.Helper()
	var got struct {
		Task struct {
			ID     string `json:"id"`
			Status struct {
				State string `json:"state"`
			} `json:"status"`
		} `json:"task"`
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || got.Task.ID == "" {
		t.Fatalf("got %s, %v, want a task", r.body, err)
	}
	return got.Task.Status.State
}

// receiver is a server that notifications are sent to.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	all     []received
	refuses int // the next notifications
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, received{q.Header.Clone(), string(body)})
		if r.refuses > 0 {
			r.refuses--
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) seen() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.all...)
}

// allowed lets a gateway call the receiver.
func (r *receiver) allowed(d *gateway.Deps) {
	d.Config.Gateway.Webhooks.PlainHTTP = true
	d.Config.Gateway.Webhooks.Allow = []string{strings.TrimPrefix(r.URL, "http://")}
}

// awaits waits until the receiver has a number of notifications, and returns them.
func (b *bench) awaits(r *receiver, n int) []received {
	b.t.Helper()
	b.eventually("notifications arrive", func() bool { return len(r.seen()) >= n })
	return r.seen()
}

const a2aVersion = "A2A-Version"

// pushes sends a message whose task notifies a receiver, and returns the task.
func (b *bench) pushes(config string) (taskID, threadID string) {
	b.t.Helper()
	body := `{"message":{"messageId":"` + id.UUID() + `","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true,` +
		`"taskPushNotificationConfig":` + config + `}}`
	a := b.post("/a2a/demo/message:send", body, a2aVersion, "1.0")
	if a.status != http.StatusOK {
		b.t.Fatalf("got %d %s", a.status, a.body)
	}
	return a.header.Get("X-Request-Id"), a.header.Get("X-Thread-Id")
}

func TestTasksNotifyTheirReceivers(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	b := start(t, r.allowed)
	taskID, threadID := b.pushes(`{"url":"` + r.URL + `/hook","token":"tok","authentication":{"scheme":"Bearer","credentials":"secret"}}`)
	actionID := id.New(id.Action)
	b.run(taskID, metadata(), continuation(actionID, time.Time{}), actionRequired())
	first := b.awaits(r, 1)[0]
	if got := first.state(t); got != "TASK_STATE_INPUT_REQUIRED" {
		t.Errorf("got %s, want TASK_STATE_INPUT_REQUIRED", got)
	}
	for name, want := range map[string]string{
		"X-A2A-Notification-Token": "tok", "Authorization": "Bearer secret", "Content-Type": "application/a2a+json", a2aVersion: "1.0",
	} {
		if got := first.header.Get(name); got != want {
			t.Errorf("header %s: got %q, want %q", name, got, want)
		}
	}
	answered := b.post("/v1/agents/demo/requests", resolving(threadID, actionID)) // by a client of another protocol
	b.run(answered.header.Get("X-Request-Id"), metadata(), delta("hello"), done())
	second := b.awaits(r, 2)[1]
	if got := second.state(t); got != "TASK_STATE_COMPLETED" || !strings.Contains(second.body, "hello") {
		t.Errorf("got %s, want the completed task with its artifact", second.body)
	}
	if first.header.Get("Webhook-Id") == second.header.Get("Webhook-Id") {
		t.Errorf("two notifications have the id %q", first.header.Get("Webhook-Id"))
	}
	b.eventually("the configuration ends with its task", func() bool {
		return strings.Contains(b.get("/a2a/demo/tasks/"+taskID+"/pushNotificationConfigs", a2aVersion, "1.0").body, `"configs":[]`)
	})
	later, _ := b.accepted(onThread(threadID))
	b.run(later, metadata(), done())
}

func TestATaskThatItsThreadLeavesNotifiesItsReceiver(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	b := start(t, r.allowed)
	taskID, threadID := b.pushes(`{"url":"` + r.URL + `"}`)
	b.run(taskID, metadata(), continuation(id.New(id.Action), time.Time{}), actionRequired())
	b.awaits(r, 1)
	next, _ := b.accepted(onThread(threadID))
	b.run(next, metadata(), done())
	if got := b.awaits(r, 2)[1].state(t); got != "TASK_STATE_CANCELED" {
		t.Errorf("got %s, want TASK_STATE_CANCELED", got)
	}
}

func TestANotificationIsRepeatedUntilItsReceiverAcceptsIt(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.refuses = 1
	b := start(t, r.allowed)
	taskID, _ := b.pushes(`{"url":"` + r.URL + `"}`)
	b.run(taskID, metadata(), done())
	all := b.awaits(r, 2)
	if a, b := all[0].header.Get("Webhook-Id"), all[1].header.Get("Webhook-Id"); a == "" || a != b {
		t.Errorf("the attempts have the ids %q and %q, want the same", a, b)
	}
}

func TestNotificationsStayOnThePublicInternet(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.Webhooks.PlainHTTP = true })
	taskID, _ := b.pushes(`{"url":"` + r.URL + `"}`)
	b.run(taskID, metadata(), done())
	b.eventually("the delivery is in the queue", func() bool {
		waiting, err := b.bus.WaitingDeliveries(t.Context(), "default", id.Derive("psh", "default", taskID, taskID))
		return err == nil && waiting == 1
	})
	pause(200 * time.Millisecond) // for an attempt
	if got := r.seen(); len(got) > 0 {
		t.Errorf("a loopback address received %v", got)
	}
}

func TestPushNotificationConfigs(t *testing.T) {
	t.Parallel()
	b := start(t)
	taskID, threadID := b.pushes(`{"id":"first","url":"https://example.com/first","token":"t"}`)
	configs := "/a2a/demo/tasks/" + taskID + "/pushNotificationConfigs"
	rpc := func(method, params string) answer {
		return b.post("/a2a/demo", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, a2aVersion, "1.0")
	}
	second := `{"taskId":"` + taskID + `","id":"second","url":"https://example.com/second","authentication":{"scheme":"Basic","credentials":"c"}}`
	for _, test := range []struct {
		what   string
		got    answer
		status int
		want   string
	}{
		{"create", rpc("CreateTaskPushNotificationConfig", second), 200, `"result":` + strings.NewReplacer(`"taskId":"`+taskID+`","id":"second"`, `"id":"second","taskId":"`+taskID+`"`).Replace(second)},
		{"get by JSON-RPC", rpc("GetTaskPushNotificationConfig", `{"taskId":"`+taskID+`","id":"first"}`), 200, `"token":"t"`},
		{"get", b.get(configs+"/second", a2aVersion, "1.0"), 200, `"url":"https://example.com/second"`},
		{"list", b.get(configs, a2aVersion, "1.0"), 200, `"id":"second"`},
		{"list by JSON-RPC", rpc("ListTaskPushNotificationConfigs", `{"taskId":"`+taskID+`"}`), 200, `"nextPageToken":""`},
		{"delete", rpc("DeleteTaskPushNotificationConfig", `{"taskId":"`+taskID+`","id":"second"}`), 200, `"result":{}`},
		{"delete again", rpc("DeleteTaskPushNotificationConfig", `{"taskId":"`+taskID+`","id":"second"}`), 200, `"code":-32001`},
		{"get what is deleted", b.get(configs+"/second", a2aVersion, "1.0"), 404, `no push notification configuration`},
		{"plain http", b.post(configs, `{"url":"http://example.com"}`, a2aVersion, "1.0"), 400, `is not an absolute URL with https`},
		{"a user in the URL", b.post(configs, `{"url":"https://a:b@example.com"}`, a2aVersion, "1.0"), 400, `user name`},
		{"no URL", b.post(configs, `{}`, a2aVersion, "1.0"), 400, `url is missing`},
		{"a line break", b.post(configs, `{"url":"https://example.com","token":"a\nb"}`, a2aVersion, "1.0"), 400, `token must have`},
		{"a scheme with a space", b.post(configs, `{"url":"https://example.com","authentication":{"scheme":"a b"}}`, a2aVersion, "1.0"), 400, `authentication.scheme`},
		{"another task", b.post(configs, `{"url":"https://example.com","taskId":"other"}`, a2aVersion, "1.0"), 400, `taskId is not that of the path`},
	} {
		if test.got.status != test.status || !strings.Contains(test.got.body, test.want) {
			t.Errorf("%s: got %d %s, want %d with %s", test.what, test.got.status, test.got.body, test.status, test.want)
		}
	}
	b.run(taskID, metadata(), done())
	if a := b.post(configs, `{"url":"https://example.com"}`, a2aVersion, "1.0"); a.status != 400 || !strings.Contains(a.body, "the task has ended") {
		t.Errorf("for a task that has ended: got %d %s", a.status, a.body)
	}
	if a := b.do(b.request(http.MethodDelete, "/v1/threads/"+threadID, "")); a.status != http.StatusNoContent {
		t.Fatalf("delete the thread: got %d %s", a.status, a.body)
	}
	if got, _, err := b.bus.TaskPushes(t.Context(), "default", threadID); err != nil || len(got.Configs) > 0 {
		t.Errorf("a deleted thread has %+v, %v", got, err)
	}
}

func TestTheReceiversOfAContextAreBounded(t *testing.T) {
	t.Parallel()
	b := start(t)
	taskID, _ := b.pushes(`{"url":"https://example.com"}`)
	configs := "/a2a/demo/tasks/" + taskID + "/pushNotificationConfigs"
	for range 31 {
		if a := b.post(configs, `{"id":"`+id.UUID()+`","url":"https://example.com"}`, a2aVersion, "1.0"); a.status != http.StatusOK {
			t.Fatalf("got %d %s", a.status, a.body)
		}
	}
	if a := b.post(configs, `{"id":"more","url":"https://example.com"}`, a2aVersion, "1.0"); a.status != http.StatusBadRequest {
		t.Errorf("the 33rd: got %d %s, want 400", a.status, a.body)
	}
	if a := b.post(configs, `{"id":"`+taskID+`","url":"https://example.com/changed"}`, a2aVersion, "1.0"); a.status != http.StatusOK {
		t.Errorf("a change: got %d %s, want 200", a.status, a.body)
	}
}

// TestCredentialsOfReceiversAreSealed reads what the broker stores.
func TestCredentialsOfReceiversAreSealed(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	alice, _ := b.key("acme", "alice")
	body := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]},"configuration":{"returnImmediately":true,` +
		`"taskPushNotificationConfig":{"url":"https://example.com","token":"open","authentication":{"scheme":"Bearer","credentials":"sesame"}}}}`
	a := b.post("/a2a/demo/message:send", body, a2aVersion, "1.0", "Authorization", "Bearer "+alice)
	if a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	stored, _, err := b.bus.TaskPushes(t.Context(), "acme", a.header.Get("X-Thread-Id"))
	if err != nil || len(stored.Configs) != 1 || stored.Configs[0].Token == "open" || stored.Configs[0].Credentials == "sesame" {
		t.Errorf("stored %+v, %v, want sealed credentials", stored, err)
	}
	taskID := a.header.Get("X-Request-Id")
	got := b.get("/a2a/demo/tasks/"+taskID+"/pushNotificationConfigs/"+taskID, a2aVersion, "1.0", "Authorization", "Bearer "+alice)
	if !strings.Contains(got.body, `"token":"open"`) || !strings.Contains(got.body, `"credentials":"sesame"`) {
		t.Errorf("the owner gets %s", got.body)
	}
}

// hooked configures a webhook that is sent to the receiver.
func (r *receiver) hooked(change func(*config.Receiver)) func(*gateway.Deps) {
	return func(d *gateway.Deps) {
		r.allowed(d)
		to := config.Receiver{URL: r.URL, SigningKeyEnv: "KEY"}
		change(&to)
		d.Config.Gateway.Webhooks.Receivers = map[string]config.Receiver{"ops": to}
		d.Secret = func(string) (string, error) { return hookKey, nil }
	}
}

const hookKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func TestWebhooksAreNotifiedOfTheEndsOfRequests(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	b := start(t, r.hooked(func(*config.Receiver) {}))
	signing, err := standardwebhooks.NewWebhook(hookKey)
	if err != nil {
		t.Fatal(err)
	}
	actionID := id.New(id.Action)
	for _, test := range []struct {
		what   string
		bodies []event.Body
		want   []string
	}{
		{"done", []event.Body{metadata(), delta("secret answer"), done()}, []string{`"type":"request.done"`, `"finishReason":"stop"`, `"agentId":"demo"`}},
		{"an open action", []event.Body{metadata(), continuation(actionID, time.Time{}), actionRequired()},
			[]string{`"type":"action.opened"`, `"actionId":"` + actionID + `"`, `"kind":"approval"`}},
		{"an error", []event.Body{metadata(), event.Error{Code: apierr.AgentError, Message: "broken", Retryable: true}},
			[]string{`"type":"request.error"`, `"message":"broken"`, `"retryable":true`}},
		{"an abort", []event.Body{metadata(), event.Aborted{Reason: "enough"}}, []string{`"type":"request.aborted"`, `"reason":"enough"`}},
	} {
		before := len(r.seen())
		requestID, threadID := b.accepted(hello)
		b.run(requestID, test.bodies...)
		got := b.awaits(r, before+1)[before]
		for _, want := range append(test.want, `"requestId":"`+requestID+`"`, `"threadId":"`+threadID+`"`, `"tenant":"default"`) {
			if !strings.Contains(got.body, want) {
				t.Errorf("%s: got %s, want %s", test.what, got.body, want)
			}
		}
		if strings.Contains(got.body, "secret answer") {
			t.Errorf("%s: the notification contains the conversation: %s", test.what, got.body)
		}
		if err := signing.Verify([]byte(got.body), got.header); err != nil {
			t.Errorf("%s: the signature of %v: %v", test.what, got.header, err)
		}
	}
}

func TestWebhooksGetTheEventsThatTheyAreConfiguredFor(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*config.Receiver){
		"another agent":  func(r *config.Receiver) { r.Agents = []string{"other"} },
		"another tenant": func(r *config.Receiver) { r.Tenants = []string{"other"} },
		"another event":  func(r *config.Receiver) { r.Events = []string{config.HookDone} },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newReceiver(t)
			b := start(t, r.hooked(change), func(d *gateway.Deps) {
				all := d.Config.Gateway.Webhooks.Receivers
				all["all"] = config.Receiver{URL: r.URL + "/all", SigningKeyEnv: "KEY"}
			})
			for range 3 { // the last one shows that the receiver has had time
				requestID, _ := b.accepted(hello)
				b.run(requestID, metadata(), event.Aborted{})
				b.eventually("the other webhook is notified", func() bool {
					return slices.ContainsFunc(r.seen(), func(one received) bool { return strings.Contains(one.body, requestID) })
				})
			}
			if got := r.seen(); len(got) != 3 {
				t.Errorf("got %d notifications, want 3", len(got))
			}
		})
	}
}

func TestAWebhookWithoutAKeyIsRefused(t *testing.T) {
	t.Parallel()
	for what, secret := range map[string]func(string) (string, error){
		"no secrets":  nil,
		"no variable": func(string) (string, error) { return "", errors.New("no secret KEY") },
		"no base64":   func(string) (string, error) { return "whsec_***", nil },
	} {
		receivers := map[string]config.Receiver{"ops": {URL: "https://example.com", SigningKeyEnv: "KEY"}}
		_, err := gateway.New(gateway.Deps{Config: config.Config{Gateway: config.Gateway{Webhooks: config.Webhooks{Receivers: receivers}}}, Secret: secret})
		if err == nil || !strings.Contains(err.Error(), "gateway.webhooks.receivers.ops") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}
