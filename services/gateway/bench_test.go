package gateway_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/alicebob/miniredis/v2"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/metric/noop"
)

const pepper = "a pepper for tests, long enough"

// bench is a gateway on a real bus and a real HTTP server, with the test in the place of runners and of history.
type bench struct {
	t       testing.TB
	nats    bustest.Server
	bus     *bus.Bus
	redis   *miniredis.Miniredis
	gateway *gateway.Gateway
	server  *httptest.Server
	archive *archive
}

// start starts a gateway whose dependencies the test may change first.
func start(t testing.TB, change ...func(*gateway.Deps)) *bench {
	t.Helper()
	b := startOn(t, bustest.NewServer(t), &archive{}, change...)
	b.background(func(ctx context.Context) error { return b.bus.Serve(ctx, historyapi.Service, b.archive.verbs()) })
	b.eventually("history answers", func() bool {
		_, err := historyapi.NewClient(b.bus).Threads(t.Context(), historyapi.ThreadsQuery{})
		return err == nil
	})
	return b
}

// startOn starts a gateway on a bus that is there.
func startOn(t testing.TB, nats bustest.Server, a *archive, change ...func(*gateway.Deps)) *bench {
	t.Helper()
	b := &bench{t: t, nats: nats, redis: miniredis.RunT(t), archive: a}
	b.bus = b.nats.Connect(t, "test")
	store, err := rediscache.Open("redis://" + b.redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	deps := gateway.Deps{
		Bus: b.bus, History: historyapi.NewClient(b.bus), State: store, Pepper: []byte(pepper),
		MeterProvider: noop.NewMeterProvider(), Log: slog.New(slog.DiscardHandler),
		Config: config.Config{Agents: map[string]config.Agent{"demo": {Backend: "scripted", Tools: []string{"calculator"}}}},
	}
	for _, f := range change {
		f(&deps)
	}
	if b.gateway, err = gateway.New(deps); err != nil {
		t.Fatal(err)
	}
	b.background(b.gateway.Run)
	b.server = httptest.NewServer(b.gateway.Handler())
	t.Cleanup(func() {
		b.server.CloseClientConnections()
		b.server.Close()
	})
	b.eventually("ready", func() bool { return b.get("/readyz").status == http.StatusOK })
	return b
}

// background runs f until the test ends, and waits for it then.
func (b *bench) background(f func(context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := f(ctx); err != nil && ctx.Err() == nil {
			b.t.Errorf("background: %v", err)
		}
	})
	b.t.Cleanup(func() {
		stop()
		done.Wait()
	})
}

func (b *bench) eventually(what string, ok func() bool) {
	b.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			b.t.Fatalf("%s: not after ten seconds", what)
		}
		pause(10 * time.Millisecond)
	}
}

func pause(d time.Duration) { <-time.After(d) }

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

// failure decodes an error in the form of the native protocol or of AG-UI.
func (a answer) failure(t testing.TB) event.Error {
	t.Helper()
	var run struct {
		Type     string      `json:"type"`
		Code     apierr.Code `json:"code"`
		Message  string      `json:"message"`
		Metadata struct {
			Retryable        bool   `json:"retryable"`
			RunningRequestID string `json:"runningRequestId"`
		} `json:"metadata"`
	}
	if json.Unmarshal([]byte(a.body), &run) == nil && run.Type == "RUN_ERROR" {
		return event.Error{
			Code: run.Code, Message: run.Message, Retryable: run.Metadata.Retryable, RunningRequestID: run.Metadata.RunningRequestID,
		}
	}
	e, err := event.Decode([]byte(a.body))
	if err != nil {
		t.Fatalf("status %d with body %q: %v", a.status, a.body, err)
	}
	failure, ok := e.Body.(event.Error)
	if !ok {
		t.Fatalf("status %d with body %q, want an error event", a.status, a.body)
	}
	return failure
}

func (b *bench) request(method, path, body string, headers ...string) *http.Request {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if strings.HasPrefix(path, "/a2a/") {
		r.Header.Set("A2A-Version", "1.0")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func (b *bench) do(r *http.Request) answer {
	resp, err := b.server.Client().Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body), err}
}

func (b *bench) get(path string, headers ...string) answer {
	b.t.Helper()
	return b.do(b.request(http.MethodGet, path, "", headers...))
}

func (b *bench) post(path, body string, headers ...string) answer {
	b.t.Helper()
	return b.do(b.request(http.MethodPost, path, body, headers...))
}

const hello = `{"messages":[{"role":"user","content":"hi"}]}`

func onThread(threadID string) string {
	return `{"messages":[{"role":"user","content":"more"}],"threadId":"` + threadID + `"}`
}

func resolving(threadID, actionID string) string {
	return `{"messages":[],"threadId":"` + threadID + `","context":{"actionResults":[{"actionId":"` + actionID + `","status":"success"}]}}`
}

// accepted starts a request without streaming it.
func (b *bench) accepted(body string) (requestID, threadID string) {
	b.t.Helper()
	a := b.post("/v1/agents/demo/requests", body)
	if a.status != http.StatusAccepted {
		b.t.Fatalf("got %d %s", a.status, a.body)
	}
	return a.header.Get("X-Request-Id"), a.header.Get("X-Thread-Id")
}

func (b *bench) log(requestID string) bus.LogID {
	return bus.LogID{Tenant: "default", RequestID: requestID}
}

// claim becomes the writer of a request's log.
func (b *bench) claim(requestID string) *bus.Writer {
	b.t.Helper()
	w, _, err := b.bus.Claim(b.t.Context(), b.log(requestID), "bench", "test")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(w.Close)
	return w
}

// emit appends events and waits until they are stored.
func (b *bench) emit(w *bus.Writer, bodies ...event.Body) {
	b.t.Helper()
	for _, body := range bodies {
		if err := w.Emit(body); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := w.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// run writes a whole log: what a runner would have written.
func (b *bench) run(requestID string, bodies ...event.Body) {
	b.t.Helper()
	w := b.claim(requestID)
	b.emit(w, bodies...)
	w.Close()
}

func metadata() event.Body {
	return event.Metadata{ThreadID: "t", AgentID: "demo", ProtocolVersion: event.Protocol}
}

func delta(text string) event.Body {
	return event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageDelta}, Delta: text}
}

func done() event.Body {
	return event.Done{MessageID: "m", ThreadID: "t", Content: []event.Content{}, FinishReason: event.FinishStop}
}

func input(text string) event.Body {
	return event.Input{ThreadID: "t", AgentID: "demo", Messages: []event.InputMessage{event.UserText(text)}}
}

func continuation(actionID string, expires time.Time) event.Body {
	return event.Continuation{ActionID: actionID, Kind: event.ContinueApproval, ExpiresAt: expires}
}

func actionRequired() event.Body {
	return event.Done{MessageID: "m", ThreadID: "t", Content: []event.Content{}, FinishReason: event.FinishActionRequired}
}

// live is an answer that is still being written. It is closed when the test ends, if not before.
type live struct {
	Header http.Header
	Body   io.ReadCloser
}

// open starts a request and waits for the answer's status; the body is read by the reader.
func (b *bench) open(r *http.Request) (live, *sse.Reader) {
	b.t.Helper()
	resp, err := b.server.Client().Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		b.t.Fatalf("got %d %s", resp.StatusCode, body)
	}
	return live{resp.Header, resp.Body}, sse.NewReader(resp.Body)
}

// names lists the events of a stream that was read to its end.
func names(t *testing.T, body string) string {
	t.Helper()
	events, rest, err := sse.Parse([]byte(body))
	if err != nil || len(rest) > 0 {
		t.Fatalf("parse stream: %v, remainder %q", err, rest)
	}
	list := make([]string, len(events))
	for i, e := range events {
		list[i] = e.Name
	}
	return strings.Join(list, " ")
}

// steps is a list of events as names gives it.
func steps(events ...string) string { return strings.Join(events, " ") }

// archive answers as history does, from what the test put there.
type archive struct {
	hash     string // of the bodies of its requests
	mu       sync.Mutex
	threads  []historyapi.Thread
	requests []historyapi.Request
	frames   map[string][]event.Frame // by requestId
	runs     []historyapi.OpenRequest
	asked    []string // questions, as "verb question"
}

var errUnknownVerb = errors.New("the archive of this test does not answer that")

func (a *archive) verbs() map[string]bus.Handler {
	all := map[string]bus.Handler{}
	for _, verb := range []string{
		historyapi.VerbThread, historyapi.VerbThreads, historyapi.VerbMessages, historyapi.VerbEvents, historyapi.VerbRequest, historyapi.VerbFrames,
		historyapi.VerbOpen, historyapi.VerbKept,
	} {
		all[verb] = func(_ context.Context, question []byte) (any, error) { return a.answer(verb, question) }
	}
	return all
}

func (a *archive) answer(verb string, question []byte) (any, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, verb+" "+string(question))
	switch verb {
	case historyapi.VerbThread:
		return a.thread(question)
	case historyapi.VerbThreads:
		return historyapi.ThreadPage{Threads: a.threads}, nil
	case historyapi.VerbMessages:
		return historyapi.MessagePage{Messages: []historyapi.Message{{RequestID: "r", Role: "user"}}}, nil
	case historyapi.VerbEvents:
		return historyapi.EventPage{}, nil
	case historyapi.VerbRequest:
		return a.request(question)
	case historyapi.VerbFrames:
		return a.page(question)
	case historyapi.VerbKept:
		return a.kept(question)
	case historyapi.VerbOpen:
		return a.open(question)
	}
	return nil, errUnknownVerb
}

func decode[Q any](question []byte) (q Q, err error) {
	err = json.Unmarshal(question, &q)
	return q, err
}

// withKeys makes the gateway ask for keys.
func withKeys(d *gateway.Deps) { d.AuthRequired = true }

// key makes an API key that the gateway knows.
func (b *bench) key(tenant, subject string, scopes ...auth.Scope) (plain string, record bus.KeyRecord) {
	b.t.Helper()
	issuer, err := auth.NewIssuer([]byte(pepper))
	if err != nil {
		b.t.Fatal(err)
	}
	plain, r, err := issuer.New(tenant, subject, scopes, time.Hour, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	record = bus.KeyRecord(r)
	if err := b.bus.PutKey(b.t.Context(), record); err != nil {
		b.t.Fatal(err)
	}
	b.eventually("the gateway knows the key", func() bool {
		return b.get("/v1/threads/none", "Authorization", "Bearer "+plain).failure(b.t).Message != "the API key is not valid; "+
			`send one header "Authorization: Bearer ak_<id>_<secret>"`
	})
	return plain, record
}
