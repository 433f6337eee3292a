package gateway_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

func clientMessage(role, id, text string) event.HistoryMessage {
	return event.HistoryMessage{Role: role, ID: id, Content: event.UserText(text).Content}
}

func resultOf(callID, text string) event.HistoryMessage {
	m := clientMessage(event.RoleTool, "", text)
	m.ToolCallID = callID
	return m
}

// inputIDs lists the messages of a request by their ids, or by their texts where they have none.
func inputIDs(messages []event.InputMessage) string {
	var all []string
	for _, m := range messages {
		if m.ID == "" {
			m.ID = m.Content.Text()
		}
		all = append(all, m.ID)
	}
	return strings.Join(all, " ")
}

// newAcceptor returns an acceptor on the servers of a bench.
func newAcceptor(t *testing.T, b *bench) *admission.Acceptor {
	t.Helper()
	store, err := rediscache.Open("redis://" + b.redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	history := historyapi.NewClient(b.bus)
	return admission.New(b.bus, history, store, authz.NewGuard(b.bus, history), slog.New(slog.DiscardHandler))
}

// Each step sends the last message of the user again.
func TestAMessageIsSentAgain(t *testing.T) {
	t.Parallel()
	b := start(t)
	acceptor := newAcceptor(t, b)
	output := []event.Body{event.Text{Block: event.Block{BlockID: "b", Stage: event.StageStop}, Text: "x"}, done()}
	tests := []struct {
		name, text string
		repeat     bool
		ends       []event.Body // the log of the accepted request, after its opening
		want       string       // the texts of the new messages
		code       apierr.Code
	}{
		{"a new thread has it once", "a", true, output, "a", ""},
		{"without repeat it is not new", "a", false, nil, "", apierr.InvalidMessageFormat},
		{"with repeat it is answered again", "a", true, output, "a", ""},
		{"one that the user has edited is new", "b", false, []event.Body{event.Error{Code: apierr.AgentError}}, "b", ""},
		{"a request that failed without output is repeated", "b", true, output, "", ""},
	}
	for _, tt := range tests {
		receipt, err := acceptor.Accept(t.Context(), admission.Call{
			Principal: auth.Dev(), AgentID: "demo", CreateThread: true, Repeat: tt.repeat,
			Request: event.AgentRequest{ThreadID: "chat"}, Conversation: []event.HistoryMessage{clientMessage("user", "1", tt.text)},
		})
		if apierr.CodeOf(err) != tt.code {
			t.Fatalf("%s: got %v, want %q", tt.name, err, tt.code)
		}
		if err != nil {
			continue
		}
		a, err := b.bus.Accepted(t.Context(), bus.LogID{Tenant: auth.Dev().Tenant, RequestID: receipt.RequestID})
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, m := range a.Request.Messages {
			texts = append(texts, m.Content.Text())
		}
		if got := strings.Join(texts, " "); got != tt.want {
			t.Errorf("%s: got messages %q, want %q", tt.name, got, tt.want)
		}
		b.emit(b.claim(receipt.RequestID), tt.ends...)
	}
}

// Each step sends a whole conversation for the same thread, as clients do that keep it themselves.
func TestWhatIsNewInAConversation(t *testing.T) {
	t.Parallel()
	b := start(t)
	acceptor := newAcceptor(t, b)
	stop := event.Block{BlockID: "b", Stage: event.StageStop}
	call := event.Continuation{ActionID: protocol.ToolActionID("call_1"), Kind: event.ContinueTool, ExpiresAt: time.Now().Add(time.Hour)}
	failed := event.Error{Code: apierr.AgentError}
	tests := []struct {
		does         string
		conversation []event.HistoryMessage
		key          string
		ends         []event.Body // the log of the accepted request, after its opening
		history      int          // messages that are imported
		messages     string       // new ones
		results      int
		want         apierr.Code
	}{
		{
			"a conversation that ends with the assistant is refused",
			[]event.HistoryMessage{clientMessage("user", "1", "a"), clientMessage("assistant", "2", "b")},
			"", nil, 0, "", 0, apierr.InvalidMessageFormat,
		},
		{"an empty one is refused", []event.HistoryMessage{}, "", nil, 0, "", 0, apierr.InvalidMessageFormat},
		{
			"a new thread imports what precedes the input",
			[]event.HistoryMessage{clientMessage("user", "1", "a"), clientMessage("assistant", "2", "b"), clientMessage("user", "3", "c"), clientMessage("user", "4", "d")},
			"", []event.Body{failed}, 2, "3 4", 0, "",
		},
		{
			"a request that failed without output is repeated",
			[]event.HistoryMessage{clientMessage("user", "1", "a"), clientMessage("assistant", "2", "b"), clientMessage("user", "3", "c"), clientMessage("user", "4", "d")},
			"", []event.Body{failed}, 0, "", 0, "",
		},
		{
			"the stored history has priority",
			[]event.HistoryMessage{clientMessage("user", "x", "other"), clientMessage("assistant", "y", "other"), clientMessage("user", "3", "c"), clientMessage("user", "4", "d"), clientMessage("user", "5", "e")},
			"k", []event.Body{event.Text{Block: stop, Text: "f"}, done()}, 0, "3 4 5", 0, "",
		},
		{
			"a retry with the same key is the same request",
			[]event.HistoryMessage{clientMessage("user", "5", "e")},
			"k", nil, 0, "3 4 5", 0, "",
		},
		{
			"nothing new",
			[]event.HistoryMessage{clientMessage("user", "4", "d"), clientMessage("user", "5", "e")},
			"", nil, 0, "", 0, apierr.InvalidMessageFormat,
		},
		{
			"without ids the messages after the assistant's are new",
			[]event.HistoryMessage{clientMessage("user", "", "e"), clientMessage("assistant", "", "f"), clientMessage("user", "", "e")},
			"", []event.Body{event.ToolCall{Block: stop, ToolCallID: "call_1"}, call, done()}, 0, "e", 0, "",
		},
		{
			"the result of an open client tool call is an action result, and others are ignored",
			[]event.HistoryMessage{clientMessage("user", "", "e"), {Role: event.RoleAssistant}, resultOf("call_0", "no"), resultOf("call_1", "21"), clientMessage("user", "", "continue")},
			"", []event.Body{event.Text{Block: stop, Text: "g"}, done()}, 0, "continue", 1, "",
		},
		{
			"a result that is stored is ignored",
			[]event.HistoryMessage{{Role: event.RoleAssistant}, resultOf("call_1", "22"), clientMessage("user", "9", "h")},
			"", []event.Body{done()}, 0, "9", 0, "",
		},
	}
	for _, test := range tests {
		receipt, err := acceptor.Accept(t.Context(), admission.Call{
			Principal: auth.Dev(), AgentID: "demo", CreateThread: true, Key: test.key,
			Request: event.AgentRequest{ThreadID: "chat"}, Conversation: test.conversation,
			Metadata: json.RawMessage(`{"x":{"runId":"1"}}`),
		})
		if test.want != "" {
			if apierr.CodeOf(err) != test.want {
				t.Errorf("%s: got %v, want %s", test.does, err, test.want)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", test.does, err)
		}
		a, err := b.bus.Accepted(t.Context(), bus.LogID{Tenant: auth.Dev().Tenant, RequestID: receipt.RequestID})
		if err != nil {
			t.Fatal(err)
		}
		if inputIDs(a.Request.Messages) != test.messages && (!receipt.Replayed || test.messages != "3 4 5") {
			t.Errorf("%s: got messages %q, want %q", test.does, inputIDs(a.Request.Messages), test.messages)
		}
		if len(a.History) != test.history || len(a.Request.Context.ActionResults) != test.results {
			t.Errorf("%s: got history %+v, results %+v", test.does, a.History, a.Request.Context.ActionResults)
		}
		if input := a.Input(); string(input.Metadata) != `{"x":{"runId":"1"}}` || len(input.History) != test.history {
			t.Errorf("%s: got the event %+v", test.does, input)
		}
		if test.ends != nil {
			b.run(receipt.RequestID, append([]event.Body{metadata()}, test.ends...)...)
		}
	}
}

func TestARequestDeclaresTools(t *testing.T) {
	t.Parallel()
	b := start(t)
	tests := []struct {
		does, body string
		status     int
		says       string
	}{
		{"tools and options", `{"messages":[{"id":"m1","role":"user","content":"hi"}],"tools":[{"name":"locate"}],"options":{"temperature":0}}`, 202, ""},
		{"an invalid schema", `{"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"a","schema":{"type":"array"}}]}`, 400, "tools[0].schema"},
		{"a schema that is a string", `{"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"a","schema":"x"}]}`, 400, "tools[0].schema"},
		{"a temperature that is a string", `{"messages":[{"role":"user","content":"hi"}],"options":{"temperature":"hot"}}`, 400, "options.temperature"},
		{"an unknown option", `{"messages":[{"role":"user","content":"hi"}],"options":{"seed":1}}`, 400, "options.seed"},
		{"129 tools", `{"messages":[],"tools":[` + strings.Repeat(`{"name":"a"},`, 128) + `{"name":"a"}]}`, 400, "tools has more than 128"},
	}
	for _, test := range tests {
		got := b.post("/v1/agents/demo/requests", test.body)
		if got.status != test.status || !strings.Contains(got.body, test.says) {
			t.Errorf("%s: got %d %s, want %d with %q", test.does, got.status, got.body, test.status, test.says)
		}
		if test.status != http.StatusAccepted {
			continue
		}
		a, err := b.bus.Accepted(t.Context(), bus.LogID{Tenant: "default", RequestID: got.header.Get("X-Request-Id")})
		if err != nil {
			t.Fatal(err)
		}
		input := a.Input()
		if len(input.Tools) != 1 || string(input.Tools[0].Schema) != `{"type":"object"}` || input.Options.Temperature == nil || input.Messages[0].ID != "m1" {
			t.Errorf("%s: got the event %+v", test.does, input)
		}
	}
}
