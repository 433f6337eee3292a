package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/coder/websocket"
)

// tour is the script of README's first example.
var tour = prompt("/think hm", "/say hello", `/tool calculator {"expression":"6*7"}`, "/say done")

const tourShape = "metadata thinking:start thinking:delta thinking:stop text:start text:delta text:stop " +
	"tool_call:start tool_call:delta tool_call:stop tool_result:start tool_result:stop " +
	"text:start text:delta text:stop done"

func TestARequestStreamsTheNativeSequence(t *testing.T) {
	t.Parallel()
	tr := post(t, "demo", tour)
	if got := tr.shape(); got != tourShape {
		t.Fatalf("got\n%s, want\n%s", got, tourShape)
	}
	d := tr.done(t)
	if d.FinishReason != event.FinishStop || answerText(d) != "hello|done" || d.ThreadID != tr.ThreadID {
		t.Errorf("got %+v, want hello, done", d)
	}
	if d.Usage.InputTokens == 0 || d.Usage.OutputTokens == 0 {
		t.Errorf("got usage %+v, want some", d.Usage)
	}
	if r := tr.results()["calculator"]; r.Status != event.ToolSuccess || !strings.Contains(r.Summary, "42") {
		t.Errorf("got tool result %+v, want success with 42", r)
	}
	checkBlocks(t, tr)
}

// checkBlocks checks the stages: blocks in order, deltas in order, and stops that contain the text of the deltas.
func checkBlocks(t *testing.T, tr transcript) {
	t.Helper()
	next := 0
	deltas := map[string]int{}
	said := map[string]string{}
	check := func(b event.Block, delta, whole string) {
		switch b.Stage {
		case event.StageStart:
			if b.BlockIndex == nil || *b.BlockIndex != next {
				t.Errorf("block %s has index %v, want %d", b.BlockID, b.BlockIndex, next)
			}
			next++
		case event.StageDelta:
			if b.DeltaIndex == nil || *b.DeltaIndex != deltas[b.BlockID] {
				t.Errorf("delta of block %s has index %v, want %d", b.BlockID, b.DeltaIndex, deltas[b.BlockID])
			}
			deltas[b.BlockID]++
			said[b.BlockID] += delta
		case event.StageStop:
			if whole != said[b.BlockID] {
				t.Errorf("block %s stops with %q, and its deltas said %q", b.BlockID, whole, said[b.BlockID])
			}
		}
	}
	for _, e := range tr.Events {
		switch body := e.Body.(type) {
		case event.Text:
			check(body.Block, body.Delta, body.Text)
		case event.Thinking:
			check(body.Block, body.Delta, body.Thinking)
		case event.ToolCall:
			check(body.Block, body.Delta, string(body.Args))
		case event.ToolResult:
			check(body.Block, body.Delta, said[body.BlockID]+body.Delta)
		}
	}
}

func TestNDJSONBringsTheSameEvents(t *testing.T) {
	t.Parallel()
	response := call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream", tour, header{"Accept", "application/x-ndjson"})
	lines := readLines(t, response)
	if got := lines.shape(); got != tourShape {
		t.Fatalf("got\n%s, want\n%s", got, tourShape)
	}
	if again := resume(t, lines.RequestID, ""); !slices.Equal(again.Lines, lines.Lines) {
		t.Errorf("SSE brings\n%s\nNDJSON\n%s", strings.Join(again.Lines, "\n"), strings.Join(lines.Lines, "\n"))
	}
}

// TestWebSocketBringsTheSameEvents starts a request on the WebSocket, is cut off, and follows it on another connection.
func TestWebSocketBringsTheSameEvents(t *testing.T) {
	t.Parallel()
	start := `{"type":"start","id":"1","agent":"demo","request":` + prompt("/stream 60 100", "/say end") + `}`
	first := readSocket(t, start, 20)
	last := first.Events[len(first.Events)-1]
	follow := fmt.Sprintf(`{"type":"follow","id":"1","requestId":%q,"after":%q}`, first.RequestID, last.ID)
	rest := readSocket(t, follow, -1)
	want := resume(t, first.RequestID, "")
	if got := slices.Concat(first.Lines, rest.Lines); !slices.Equal(got, want.Lines) {
		t.Errorf("SSE brings\n%s\nthe WebSocket\n%s", strings.Join(want.Lines, "\n"), strings.Join(got, "\n"))
	}
	rest.done(t)
}

// readSocket sends a message on a WebSocket and reads at most limit events (-1 = all) after the reply.
func readSocket(t *testing.T, message string, limit int) (tr transcript) {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(base, "http")+"/v1/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
	if _, text, err := conn.Read(t.Context()); err != nil || !strings.HasPrefix(string(text), `{"type":"reply","id":"1"`) {
		t.Fatalf("got %s, %v, want a reply", text, err)
	}
	for limit < 0 || len(tr.Events) < limit {
		_, text, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(text), `{"type":"end"`) {
			break
		}
		e, err := event.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		tr.add(e, string(text), string(e.ID))
	}
	return tr
}

func TestDisconnectedStreamResumesAndLateReaderReceivesAll(t *testing.T) {
	t.Parallel()
	ctx, cut := context.WithCancel(t.Context())
	body := prompt("/stream 60 100", "/say end")
	first := readStream(t, call(ctx, t, http.MethodPost, "/v1/agents/demo/stream", body), 20)
	cut()
	ctx, cut = context.WithCancel(t.Context())
	target := path("/v1/requests/%s/stream", first.RequestID)
	second := readStream(t, call(ctx, t, http.MethodGet, target, "", header{"Last-Event-ID", first.LastID}), 15)
	cut()
	third := resume(t, first.RequestID, second.LastID)
	together := slices.Concat(first.Lines, second.Lines, third.Lines)
	late := resume(t, first.RequestID, "")
	if !slices.Equal(together, late.Lines) {
		t.Fatalf("the parts hold %d events, a late reader sees %d", len(together), len(late.Lines))
	}
	late.done(t)
	response := call(t.Context(), t, http.MethodGet, target, "", header{"Last-Event-ID", late.LastID})
	if response.StatusCode != http.StatusNoContent {
		t.Fatalf("after the end: got %s, want 204", response.Status)
	}
}

func TestManyReadersOfOneRequestSeeTheSame(t *testing.T) {
	t.Parallel()
	tr := started(t, "demo", prompt("/stream 100 200"), 5)
	var readers sync.WaitGroup
	streams := make([][]string, 8)
	for i := range streams {
		readers.Go(func() { streams[i] = resume(t, tr.RequestID, "").Lines })
	}
	readers.Wait()
	for i := range streams {
		if !slices.Equal(streams[i], streams[0]) {
			t.Errorf("reader %d saw %d events, reader 0 saw %d", i, len(streams[i]), len(streams[0]))
		}
	}
}

func TestParallelToolsRunTogether(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	tr := post(t, "demo", prompt(`/tools echo {"text":"a","delay":"700ms"}; calculator {"expression":"1+1"}; echo {"text":"b","delay":"700ms"}`, "/say ok"))
	if took := time.Since(begun); took > 1400*time.Millisecond {
		t.Errorf("two calls of 700 ms took %s: they did not run together", took)
	}
	d := tr.done(t)
	results := 0
	for _, c := range d.Content {
		if c.Type == event.ContentToolResult && c.Status == event.ToolSuccess {
			results++
		}
	}
	if results != 3 || answerText(d) != "ok" {
		t.Errorf("got %+v, want three results and ok", d.Content)
	}
}

func TestAbortEndsARequestWithinASecond(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, script string }{
		{"in the model", "/stream 10000 50"},
		{"in a sleep", "/say a\n/sleep 1m"},
		{"in a tool", `/tool echo {"text":"x","delay":"1m"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tr := started(t, "demo", prompt(test.script), 2)
			target := path("/v1/requests/%s/abort", tr.RequestID)
			begun := time.Now()
			response := call(t.Context(), t, http.MethodPost, target, `{"reason":"no longer needed"}`)
			if response.StatusCode != http.StatusAccepted {
				t.Fatalf("abort answers %s: %s", response.Status, readAll(t, response))
			}
			whole := resume(t, tr.RequestID, "")
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("the end came after %s", took)
			}
			if end := only[event.Aborted](t, whole); end.Reason != "no longer needed" {
				t.Errorf("got the reason %q", end.Reason)
			}
			wantFault(t, call(t.Context(), t, http.MethodPost, target, ""), http.StatusConflict, apierr.RequestFinished)
			if status := get[historyapi.Request](t, path("/v1/requests/%s", tr.RequestID)); status.Status != historyapi.StatusAborted {
				t.Errorf("got status %s, want aborted", status.Status)
			}
		})
	}
}

func TestLeavingEndsARequestOnlyWhereConfigured(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{"hurried": "aborted", "demo": "done"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(t.Context())
			tr := readStream(t, call(ctx, t, http.MethodPost, path("/v1/agents/%s/stream", agent), prompt("/stream 200 100")), 3)
			leave()
			whole := resume(t, tr.RequestID, "")
			if last := whole.Events[len(whole.Events)-1]; string(last.Body.Name()) != want {
				t.Errorf("the request ended with %s, want %s", last.Body.Name(), want)
			}
		})
	}
}

func TestFailuresEndWithTheRightError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, agent, script string
		want                event.Error
	}{
		{"a failure for good", "demo", "/say a\n/fail agent_error", event.Error{Code: apierr.AgentError}},
		{"a failure worth a retry", "demo", "/fail agent_error retryable", event.Error{Code: apierr.AgentError, Retryable: true}},
		{"a script with a mistake", "demo", "/nonsense", event.Error{Code: apierr.AgentError}},
		{"a run that takes too long", "brief", "/sleep 1m", event.Error{Code: apierr.StreamTimeout, Retryable: true}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tr := post(t, test.agent, prompt(test.script))
			got := only[event.Error](t, tr)
			if got.Code != test.want.Code || got.Retryable != test.want.Retryable || got.Message == "" {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestFailedToolIsReportedToModelAndRunContinues(t *testing.T) {
	t.Parallel()
	tr := post(t, "demo", prompt(`/tool echo {"text":"x","fail":"no luck"}`, `/tool nosuchtool {}`, "/say after"))
	if answerText(tr.done(t)) != "after" {
		t.Errorf("got %q, want the run to continue", answerText(tr.done(t)))
	}
	for _, name := range []string{"echo", "nosuchtool"} {
		if r := tr.results()[name]; r.Status != event.ToolFailed {
			t.Errorf("%s ended with %+v, want an error", name, r)
		}
	}
}

func TestLimitsEndARun(t *testing.T) {
	t.Parallel()
	tr := post(t, "limited", prompt("/tool clock {}", "/tool clock {}", "/tool clock {}", "/say never"))
	if got := tr.done(t).FinishReason; got != event.FinishMaxTurns {
		t.Errorf("got %s, want max_turns", got)
	}
}

func TestBadInputIsRefusedBeforeTheFirstByte(t *testing.T) {
	t.Parallel()
	hello := prompt("hi")
	tests := []struct {
		name, path, body string
		status           int
		code             apierr.Code
	}{
		{"an unknown agent", "/v1/agents/nobody/stream", hello, 404, apierr.AgentNotFound},
		{"an unknown route", "/v1/nothing", hello, 404, apierr.RouteNotFound},
		{"no JSON", "/v1/agents/demo/stream", "hi", 400, apierr.InvalidMessageFormat},
		{"no messages", "/v1/agents/demo/stream", `{}`, 400, apierr.InvalidMessageFormat},
		{"a key twice", "/v1/agents/demo/stream", `{"messages":[],"messages":[]}`, 400, apierr.InvalidMessageFormat},
		{"a system message", "/v1/agents/demo/stream", `{"messages":[{"role":"system","content":"x"}]}`, 400, apierr.InvalidMessageFormat},
		{"an unknown thread", "/v1/agents/demo/stream", `{"threadId":"thr_none","messages":[{"role":"user","content":"x"}]}`, 404, apierr.ThreadNotFound},
		{"a thread id with a wildcard", "/v1/agents/demo/stream", `{"threadId":"*","messages":[{"role":"user","content":"x"}]}`, 400, apierr.InvalidMessageFormat},
		{"too much", "/v1/agents/demo/stream", prompt(strings.Repeat("x", 1<<20)), 413, apierr.MessageTooLarge},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			wantFault(t, call(t.Context(), t, http.MethodPost, test.path, test.body), test.status, test.code)
		})
	}
}

func TestAnIdempotentRetryMeetsItsOwnRequest(t *testing.T) {
	t.Parallel()
	key := header{"Idempotency-Key", newKey()}
	first := post(t, "demo", prompt("/say once"), key)
	response := call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream", prompt("/say once"), key)
	if response.Header.Get("Idempotency-Replayed") != "true" {
		t.Error("the retry does not say that it is one")
	}
	if again := readStream(t, response, -1); !slices.Equal(again.Lines, first.Lines) {
		t.Errorf("the retry brings\n%v, want\n%v", again.Lines, first.Lines)
	}
	wantFault(t, call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream", prompt("/say other"), key), 422, apierr.IdempotencyMismatch)
	var race sync.WaitGroup
	ids := make([]string, 8)
	shared := header{"Idempotency-Key", newKey()}
	for i := range ids {
		race.Go(func() { ids[i] = post(t, "demo", prompt("/say race"), shared).RequestID })
	}
	race.Wait()
	if len(slices.Compact(ids)) != 1 {
		t.Errorf("eight retries at once made requests %v, want one", ids)
	}
}

func TestABackgroundRequestIsFollowedLater(t *testing.T) {
	t.Parallel()
	response := call(t.Context(), t, http.MethodPost, "/v1/agents/demo/requests", prompt("/sleep 300ms", "/say later"))
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("got %s: %s", response.Status, readAll(t, response))
	}
	location := response.Header.Get("Location")
	if tr := readStream(t, call(t.Context(), t, http.MethodGet, location+"/stream", ""), -1); answerText(tr.done(t)) != "later" {
		t.Errorf("got %v", tr.Lines)
	}
	status := get[historyapi.Request](t, location)
	if status.Status != historyapi.StatusDone || status.Usage == nil || len(status.Terminal) == 0 {
		t.Errorf("got %+v, want done with usage and terminal", status)
	}
}

func TestOrdinaryWordsGetAnAnswerThatUsesATool(t *testing.T) {
	t.Parallel()
	tr := post(t, "demo", prompt("what is 6*7?"))
	if len(tr.results()) == 0 || answerText(tr.done(t)) == "" {
		t.Errorf("got %s", tr.shape())
	}
}

func TestExtendedEventsComeWhenAskedFor(t *testing.T) {
	t.Parallel()
	tr := post(t, "demo", prompt("/say hi"))
	extended := readStream(t, call(t.Context(), t, http.MethodGet, path("/v1/requests/%s/stream?include=extended", tr.RequestID), ""), -1)
	if !strings.HasPrefix(extended.shape(), "claim input metadata") {
		t.Errorf("got %s, want claim and input first", extended.shape())
	}
	if strings.Contains(extended.shape(), "tool_output") {
		t.Error("an internal event came out")
	}
}

func TestEveryResponseTellsItsTrace(t *testing.T) {
	t.Parallel()
	response := call(t.Context(), t, http.MethodGet, "/v1/agents", "")
	if got := response.Header.Get("X-Trace-Id"); len(got) != 32 {
		t.Errorf("got trace id %q, want 32 hex digits", got)
	}
}

func TestManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	var clients sync.WaitGroup
	for i := range 50 {
		clients.Go(func() {
			word := fmt.Sprint("word", i)
			tr := post(t, "demo", prompt("/stream 50 0", `/tool calculator {"expression":"2^10"}`, "/say "+word))
			if got := answerText(tr.done(t)); !strings.HasSuffix(got, word) {
				t.Errorf("got %q, want it to end with %q", got, word)
			}
		})
	}
	clients.Wait()
}
