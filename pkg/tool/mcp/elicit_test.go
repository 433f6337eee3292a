package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/mcp"
	"github.com/agentbus/agentbus/pkg/tool/mcp/mcptest"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// asking serves a server that may ask, without sessions in the newest version of the protocol, and with them before.
func asking(t *testing.T, old bool) mcp.Options {
	t.Helper()
	server := mcptest.New(func() {})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: !old})
	if old {
		mcptest.Old(server)
	}
	site := httptest.NewServer(handler)
	t.Cleanup(func() {
		_ = site.Listener.Close() // first: a client could connect again
		site.CloseClientConnections()
		site.Close()
	})
	return mcp.Options{Name: "site", URL: site.URL, Elicitation: true}
}

// given is an answer that a client sends.
func given(status event.ActionStatus, result string) event.ActionResult {
	return event.ActionResult{Status: status, Result: json.RawMessage(result)}
}

// answers are the answers to questions, in their order, by a part of each question.
type answers map[string][]event.ActionResult

// converse calls a tool, and answers its questions as long as there are answers.
func (r running) converse(ctx context.Context, t *testing.T, name string, given answers) (asked []tool.Ask, end tool.Result, err error) {
	t.Helper()
	found, err := r.Tool(ctx, r.Name()+mcp.Separator+name)
	if err != nil {
		t.Fatal(err)
	}
	call := tool.Call{ID: "call_1", Args: json.RawMessage(`{}`), Progress: quiet}
	for {
		end, err = found.Call(ctx, call)
		if err != nil || end.Ask == nil {
			return asked, end, err
		}
		asked = append(asked, *end.Ask)
		answer := given.take(end.Ask.Question)
		if answer == nil {
			return asked, end, nil
		}
		call.Answer = &tool.Answer{Ask: *end.Ask, Result: *answer}
	}
}

func (a answers) take(question string) *event.ActionResult {
	for part, results := range a {
		if strings.Contains(question, part) && len(results) > 0 {
			a[part] = results[1:]
			return &results[0]
		}
	}
	return nil
}

func TestAServerAsksTheUser(t *testing.T) {
	t.Parallel()
	yes := func(result string) event.ActionResult { return given(event.ActionSuccess, result) }
	type results = []event.ActionResult
	tests := []struct {
		name, tool string
		answers    func() answers
		asked      int
		want       string
	}{
		{
			"two questions", "order", func() answers { return answers{"size": {yes(`{"size":3}`)}, "Really": {yes(`{"sure":true}`)}} },
			2, "a accept map[size:3], b accept map[sure:true] with state of order",
		},
		{
			"answers that are typed", "order", func() answers { return answers{"size": {yes(`"3"`)}, "Really": {yes(`"Yes!"`)}} },
			2, "a accept map[size:3], b accept map[sure:true] with state of order",
		},
		{
			"an answer that does not fit is asked for again", "order",
			func() answers {
				return answers{"size": results{yes(`{"size":"big"}`), yes(`{"size":3}`)}, "Really": {yes(`{"sure":false}`)}}
			},
			3, "a accept map[size:3], b accept map[sure:false] with state of order",
		},
		{
			"a denial declines, and an error cancels", "order",
			func() answers {
				return answers{"size": {given(event.ActionDenied, "")}, "Really": {given(event.ActionError, "")}}
			},
			2, "a decline map[], b cancel map[] with state of order",
		},
		{
			"a page to visit", "visit", func() answers { return answers{"Log in": {yes(`"done"`)}} },
			1, "page accept map[] with state of visit",
		},
	}
	for _, old := range []bool{false, true} {
		r := run(t, asking(t, old))
		for _, tt := range tests {
			asked, end, err := r.converse(t.Context(), t, tt.tool, tt.answers())
			if err != nil || end.Content != tt.want || len(asked) != tt.asked {
				t.Errorf("%s (old: %v): got %q, %v after %d questions, want %q after %d", tt.name, old, end.Content, err, len(asked), tt.want, tt.asked)
			}
			for _, a := range asked {
				if a.Held != old {
					t.Errorf("%s (old: %v): got held %v", tt.name, old, a.Held)
				}
			}
		}
	}
}

func TestACallStaysOpenUntilTheAnswer(t *testing.T) {
	t.Parallel()
	r := run(t, asking(t, true))
	asked, end, err := r.converse(t.Context(), t, "book", answers{"name": {given(event.ActionSuccess, `{"name":"Ann"}`)}})
	if err != nil || len(asked) != 1 || end.Content != "accept Ann" {
		t.Errorf("got %v, %q, %v", asked, end.Content, err)
	}
}

func TestTwoCallsAskAtTheSameTime(t *testing.T) {
	t.Parallel()
	r := run(t, asking(t, true))
	first, _, err := r.converse(t.Context(), t, "book", nil)
	if err != nil || len(first) != 1 {
		t.Fatalf("got %v, %v", first, err)
	}
	if _, end, err := r.converse(t.Context(), t, "book", answers{"name": {given(event.ActionSuccess, `"Bob"`)}}); err != nil || end.Content != "accept Bob" {
		t.Errorf("the second call: got %q, %v", end.Content, err)
	}
	found, err := r.Tool(t.Context(), "site__book")
	if err != nil {
		t.Fatal(err)
	}
	end, err := found.Call(t.Context(), tool.Call{
		ID: "call_1", Args: json.RawMessage(`{}`), Progress: quiet, Answer: &tool.Answer{Ask: first[0], Result: given(event.ActionSuccess, `"Ann"`)},
	})
	if err != nil || end.Content != "accept Ann" {
		t.Errorf("the first call: got %q, %v", end.Content, err)
	}
}

func TestACallThatIsNoLongerOpenIsUnknown(t *testing.T) {
	t.Parallel()
	o := asking(t, true)
	before := run(t, o)
	asked, _, err := before.converse(t.Context(), t, "book", nil)
	if err != nil {
		t.Fatal(err)
	}
	before.stop()
	found, err := run(t, o).Tool(t.Context(), "site__book")
	if err != nil {
		t.Fatal(err)
	}
	_, err = found.Call(t.Context(), tool.Call{
		ID: "call_1", Args: json.RawMessage(`{}`), Progress: quiet, Answer: &tool.Answer{Ask: asked[0], Result: given(event.ActionSuccess, `"Ann"`)},
	})
	if _, ok := errors.AsType[*tool.UnknownError](err); !ok {
		t.Errorf("got %v, want that the outcome is unknown", err)
	}
}

func TestAServerThatMayNotAskIsRefused(t *testing.T) {
	t.Parallel()
	for _, old := range []bool{false, true} {
		o := asking(t, old)
		o.Elicitation = false
		if _, end, err := run(t, o).converse(t.Context(), t, "order", nil); err == nil {
			t.Errorf("old %v: got %v, want an error", old, end)
		}
	}
}
