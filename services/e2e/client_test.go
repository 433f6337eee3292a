package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/sse"
	jsonv2 "github.com/go-json-experiment/json"
)

// header is a header of a request: name, value.
type header [2]string

// call makes a request and returns its response. The test closes the body. It repeats a GET that is refused with 503 and
// Retry-After, as clients should: history that has not caught up within [historyapi.ProjectionTimeout] says so.
func call(ctx context.Context, t *testing.T, method, path, body string, headers ...header) *http.Response {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		response := callOnce(ctx, t, method, path, body, headers...)
		seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
		busy := response.StatusCode == http.StatusServiceUnavailable && err == nil
		if method != http.MethodGet || !busy || time.Now().After(deadline) {
			return response
		}
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

func callOnce(ctx context.Context, t *testing.T, method, path, body string, headers ...header) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(body))
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
	return response
}

// get reads a JSON answer into a T.
func get[T any](t *testing.T, path string) T {
	t.Helper()
	response := call(t.Context(), t, http.MethodGet, path, "")
	if response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s answers %s: %s", path, response.Status, readAll(t, response))
	}
	var answer T
	if err := jsonv2.UnmarshalRead(response.Body, &answer); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return answer
}

func readAll(t *testing.T, response *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantFault checks that a response is a native error event with a status and a code, and returns it.
func wantFault(t *testing.T, response *http.Response, status int, code apierr.Code) event.Error {
	t.Helper()
	text := readAll(t, response)
	if response.StatusCode != status {
		t.Fatalf("got %s with %s, want %d", response.Status, text, status)
	}
	e, err := event.Decode([]byte(text))
	if err != nil {
		t.Fatalf("body %s: %v", text, err)
	}
	body, ok := e.Body.(event.Error)
	if !ok || body.Code != code || body.Message == "" {
		t.Fatalf("got %s, want an error event with code %s and a message", text, code)
	}
	return body
}

// prompt is a request body with one user message.
func prompt(lines ...string) string {
	return requestBody(event.AgentRequest{Messages: []event.InputMessage{event.UserText(strings.Join(lines, "\n"))}})
}

func requestBody(r event.AgentRequest) string {
	if r.Messages == nil {
		r.Messages = []event.InputMessage{}
	}
	text, err := jsonv2.Marshal(r)
	if err != nil {
		panic(err) // a request of ours is always JSON
	}
	return string(text)
}

// resolve is the body of a request that brings the results of actions.
func resolve(threadID string, results ...event.ActionResult) string {
	return requestBody(event.AgentRequest{ThreadID: threadID, Context: event.Context{ActionResults: results}})
}

// transcript is what a client has read of one request.
type transcript struct {
	RequestID string
	ThreadID  string
	LastID    string
	Events    []event.Event
	Lines     []string
}

// post runs an agent and reads its stream to the end.
func post(t *testing.T, agent, body string, headers ...header) transcript {
	t.Helper()
	response := call(t.Context(), t, http.MethodPost, "/v1/agents/"+agent+"/stream", body, headers...)
	return readStream(t, response, -1)
}

// resume reads the rest of a request's stream.
func resume(t *testing.T, requestID, lastID string) transcript {
	t.Helper()
	var headers []header
	if lastID != "" {
		headers = append(headers, header{"Last-Event-ID", lastID})
	}
	return readStream(t, call(t.Context(), t, http.MethodGet, "/v1/requests/"+requestID+"/stream", "", headers...), -1)
}

// readStream reads at most limit events (-1 = all) of an SSE response. It checks what every stream must keep.
func readStream(t *testing.T, response *http.Response, limit int) transcript {
	t.Helper()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("stream answers %s: %s", response.Status, readAll(t, response))
	}
	if got := response.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/event-stream") {
		t.Fatalf("stream has content type %q", got)
	}
	tr := transcript{RequestID: response.Header.Get("X-Request-Id"), ThreadID: response.Header.Get("X-Thread-Id")}
	reader := sse.NewReader(response.Body)
	for limit < 0 || len(tr.Events) < limit {
		frame, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		e, err := event.Decode(frame.Data)
		if err != nil {
			t.Fatal(err)
		}
		if frame.Name != string(e.Body.Name()) || frame.ID == "" {
			t.Fatalf("frame %q %q does not fit its event %s", frame.ID, frame.Name, frame.Data)
		}
		tr.add(e, string(frame.Data), frame.ID)
	}
	return tr
}

// readLines reads an NDJSON response.
func readLines(t *testing.T, response *http.Response) transcript {
	t.Helper()
	if got := response.Header.Get("Content-Type"); !strings.HasPrefix(got, "application/x-ndjson") {
		t.Fatalf("stream has content type %q", got)
	}
	var tr transcript
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		e, err := event.Decode(lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		tr.add(e, lines.Text(), string(e.ID))
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr *transcript) add(e event.Event, line, lastID string) {
	tr.Events = append(tr.Events, e)
	tr.Lines = append(tr.Lines, line)
	tr.LastID = lastID
	tr.RequestID = e.RequestID
	if body, ok := e.Body.(event.Metadata); ok {
		tr.ThreadID = body.ThreadID
	}
}

// shape writes the events one word each: "metadata text:start text:delta text:stop done". Runs of deltas become one.
func (tr transcript) shape() string {
	var words []string
	for _, e := range tr.Events {
		word := string(e.Body.Name())
		if stage := stageOf(e.Body); stage != "" {
			word += ":" + string(stage)
		}
		if len(words) > 0 && words[len(words)-1] == word && strings.HasSuffix(word, ":delta") {
			continue
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func stageOf(body event.Body) event.Stage {
	switch b := body.(type) {
	case event.Text:
		return b.Stage
	case event.Thinking:
		return b.Stage
	case event.ToolCall:
		return b.Stage
	case event.ToolResult:
		return b.Stage
	default:
		return ""
	}
}

// find returns the bodies of one type, in order.
func find[B event.Body](tr transcript) []B {
	var found []B
	for _, e := range tr.Events {
		if body, ok := e.Body.(B); ok {
			found = append(found, body)
		}
	}
	return found
}

// only returns the one body of a type.
func only[B event.Body](t *testing.T, tr transcript) B {
	t.Helper()
	found := find[B](tr)
	if len(found) != 1 {
		t.Fatalf("got %d events of type %T, want 1, in:\n%s", len(found), *new(B), strings.Join(tr.Lines, "\n"))
	}
	return found[0]
}

// done returns the terminal event of a request that went well.
func (tr transcript) done(t *testing.T) event.Done { t.Helper(); return only[event.Done](t, tr) }

// results returns how each tool call ended, by tool.
func (tr transcript) results() map[string]event.ToolResult {
	ends := map[string]event.ToolResult{}
	for _, r := range find[event.ToolResult](tr) {
		if r.Stage == event.StageStop {
			ends[r.Tool] = r
		}
	}
	return ends
}

// answerText returns the text of an answer.
func answerText(d event.Done) string {
	var all []string
	for _, c := range d.Content {
		if c.Type == event.ContentText {
			all = append(all, c.Text)
		}
	}
	return strings.Join(all, "|")
}

func newKey() string { return id.New("key") }

func success(actionID, result string) event.ActionResult {
	r := event.ActionResult{ActionID: actionID, Status: event.ActionSuccess}
	if result != "" {
		r.Result = json.RawMessage(result)
	}
	return r
}

// started opens a stream of a request that runs on, reads n events and leaves it open.
func started(t *testing.T, agent, body string, n int) transcript {
	t.Helper()
	response := call(t.Context(), t, http.MethodPost, "/v1/agents/"+agent+"/stream", body)
	tr := readStream(t, response, n)
	if len(tr.Events) < n {
		t.Fatalf("stream ended after %d events, want %d: %v", len(tr.Events), n, tr.Lines)
	}
	return tr
}

func path(format string, args ...any) string { return fmt.Sprintf(format, args...) }
