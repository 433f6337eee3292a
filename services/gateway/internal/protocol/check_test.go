package protocol_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// checkedAgents is a configuration with an agent of each kind.
func checkedAgents() config.Config {
	return config.Config{
		MCP: map[string]config.MCPServer{"github": {}, "wiki": {}},
		Agents: map[string]config.Agent{
			"demo": {
				Backend: "openai", Tools: []string{"clock", "github__*", "wiki__search"},
				ClientTools: []config.ClientTool{{Name: "locate"}},
			},
			"closed":  {Backend: "openai", RequestTools: config.RequestToolsRefuse},
			"program": {Backend: "claude-code"},
		},
	}
}

func withTools(agent string, tools ...event.RequestTool) protocol.Request {
	return protocol.Request{AgentID: agent, Request: event.AgentRequest{Tools: tools}}
}

func toolOf(name, schema string) event.RequestTool {
	return event.RequestTool{Name: name, Schema: json.RawMessage(schema)}
}

func TestToolsOfARequest(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100)
	many := make([]event.RequestTool, 129)
	for i := range many {
		many[i] = toolOf(fmt.Sprintf("t%d", i), "")
	}
	large := toolOf("large", `{"type":"object","description":"`+strings.Repeat("x", 256<<10)+`"}`)
	tests := []struct {
		does string
		in   protocol.Request
		want string // JSON of the stored tools; "" = an error
		code apierr.Code
		says string
	}{
		{"no tools are declared", withTools("demo"), "null", "", ""},
		{"a tool without a schema", withTools("demo", toolOf("a", "")), `[{"name":"a","schema":{"type":"object"}}]`, "", ""},
		{"a schema without a type", withTools("demo", toolOf("a", `{"properties":{}}`)), `[{"name":"a","schema":{"properties":{},"type":"object"}}]`, "", ""},
		{"a configured client tool has priority", withTools("demo", toolOf("locate", `{}`), toolOf("b", "")), `[{"name":"b","schema":{"type":"object"}}]`, "", ""},
		{"a tool of another MCP server's name", withTools("demo", toolOf("wiki__edit", "")), `[{"name":"wiki__edit","schema":{"type":"object"}}]`, "", ""},
		{"too many", withTools("demo", many...), "", apierr.InvalidMessageFormat, "tools has 129 entries"},
		{"too large", withTools("demo", large), "", apierr.MessageTooLarge, "tools have more than"},
		{"a name with a dot", withTools("demo", toolOf("a.b", "")), "", apierr.InvalidMessageFormat, "tools[0].name"},
		{"a name twice", withTools("demo", toolOf("a", ""), toolOf("a", "")), "", apierr.InvalidMessageFormat, "tools[1].name repeats a"},
		{"a tool of the agent", withTools("demo", toolOf("clock", "")), "", apierr.InvalidMessageFormat, "tools[0].name clock"},
		{"a tool of its MCP server", withTools("demo", toolOf("github__x", "")), "", apierr.InvalidMessageFormat, "tools[0].name github__x"},
		{"a tool of an MCP server by name", withTools("demo", toolOf("wiki__search", "")), "", apierr.InvalidMessageFormat, "tools[0].name wiki__search"},
		{"an agent as a tool", withTools("demo", toolOf("agent__x", "")), "", apierr.InvalidMessageFormat, "tools[0].name agent__x"},
		{"a tool of the turn loop", withTools("demo", toolOf("plan", "")), "", apierr.InvalidMessageFormat, "tools[0].name plan"},
		{"a schema that is a list", withTools("demo", toolOf("a", `[]`)), "", apierr.InvalidMessageFormat, "tools[0].schema must be"},
		{"a schema of another type", withTools("demo", toolOf("a", `{"type":"string"}`)), "", apierr.InvalidMessageFormat, "tools[0].schema is not"},
		{"a schema with an unknown type", withTools("demo", toolOf("a", `{"type":"object","properties":{"a":{"type":"strin"}}}`)), "", apierr.InvalidMessageFormat, "tools[0].schema is not"},
		{"a schema that refers to the network", withTools("demo", toolOf("a", `{"$ref":"http://127.0.0.1/x"}`)), "", apierr.InvalidMessageFormat, "tools[0].schema is not"},
		{"a schema that is deep", withTools("demo", toolOf("a", deep)), "", apierr.InvalidMessageFormat, "tools[0].schema is nested"},
		{"a schema that is not UTF-8", withTools("demo", toolOf("a", "{\"a\":\"\xff\"}")), "", apierr.InvalidMessageFormat, "tools[0].schema must be"},
		{"an agent that refuses them", withTools("closed", toolOf("a", "")), "", apierr.InvalidMessageFormat, "accepts no tools"},
		{"an agent that refuses none", withTools("closed"), "null", "", ""},
		{"a program", withTools("program", toolOf("a", "")), "", apierr.InvalidMessageFormat, "runs its own tools"},
		{"a remote agent", withTools("far", toolOf("a", "")), "", apierr.InvalidMessageFormat, "runs its own tools"},
	}
	for _, test := range tests {
		got, err := protocol.Check(checkedAgents(), test.in)
		if test.want == "" {
			wantRefusal(t, test.does, err, test.code, test.says)
			continue
		}
		text, failed := json.Marshal(got.Request.Tools)
		if err != nil || failed != nil || string(text) != test.want {
			t.Errorf("%s: got %s, %v, want %s", test.does, text, err, test.want)
		}
	}
}

func wantRefusal(t *testing.T, what string, err error, code apierr.Code, says string) {
	t.Helper()
	if apierr.CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%s: got %v (%s), want %s with %q", what, err, apierr.CodeOf(err), code, says)
	}
}

func TestMembersOfARequest(t *testing.T) {
	t.Parallel()
	number := func(n float64) *float64 { return &n }
	options := func(o event.RequestOptions) protocol.Request {
		return protocol.Request{AgentID: "demo", Request: event.AgentRequest{Options: o}}
	}
	conversation := func(messages ...event.HistoryMessage) protocol.Request {
		return protocol.Request{AgentID: "demo", Conversation: messages}
	}
	text := event.UserText("hi").Content
	tests := []struct {
		does string
		in   protocol.Request
		code apierr.Code // "" = accepted
		says string
	}{
		{"options in their ranges", options(event.RequestOptions{
			Temperature: number(2), TopP: number(0), Stop: []string{"a"}, MaxTokens: 1,
			ToolChoice:     &event.ToolChoice{Mode: event.ChooseTool, Name: "a"},
			ResponseFormat: &event.ResponseFormat{Type: event.FormatSchema, Schema: json.RawMessage(`{}`)},
		}), "", ""},
		{"a temperature above 2", options(event.RequestOptions{Temperature: number(2.1)}), apierr.InvalidMessageFormat, "options.temperature is 2.1"},
		{"a topP below 0", options(event.RequestOptions{TopP: number(-0.1)}), apierr.InvalidMessageFormat, "options.topP is -0.1"},
		{"negative maxTokens", options(event.RequestOptions{MaxTokens: -1}), apierr.InvalidMessageFormat, "options.maxTokens"},
		{"five stops", options(event.RequestOptions{Stop: slices.Repeat([]string{"a"}, 5)}), apierr.InvalidMessageFormat, "options.stop has 5"},
		{"an empty stop", options(event.RequestOptions{Stop: []string{""}}), apierr.InvalidMessageFormat, "options.stop[0]"},
		{"an unknown tool choice", options(event.RequestOptions{ToolChoice: &event.ToolChoice{Mode: "any"}}), apierr.InvalidMessageFormat, "toolChoice.mode"},
		{"a tool choice without a name", options(event.RequestOptions{ToolChoice: &event.ToolChoice{Mode: "tool"}}), apierr.InvalidMessageFormat, "toolChoice.name"},
		{"an unknown format", options(event.RequestOptions{ResponseFormat: &event.ResponseFormat{Type: "xml"}}), apierr.InvalidMessageFormat, "responseFormat.type"},
		{"a format without its schema", options(event.RequestOptions{ResponseFormat: &event.ResponseFormat{Type: "json_schema"}}), apierr.InvalidMessageFormat, "responseFormat.schema is missing"},
		{"a large context", protocol.Request{AgentID: "demo", Request: event.AgentRequest{Context: event.Context{Extra: event.NewMembers([]byte(`{"a":"` + strings.Repeat("x", 64<<10) + `"}`))}}}, apierr.MessageTooLarge, "context has"},
		{"a context that is not UTF-8", protocol.Request{AgentID: "demo", Request: event.AgentRequest{Context: event.Context{Extra: event.NewMembers([]byte("{\"a\":\"\xff\"}"))}}}, apierr.InvalidMessageFormat, "context must be"},
		{"metadata that is a list", protocol.Request{AgentID: "demo", Metadata: json.RawMessage(`[]`)}, apierr.InvalidMessageFormat, "metadata must be"},
		{"large metadata", protocol.Request{AgentID: "demo", Metadata: json.RawMessage(`{"a":"` + strings.Repeat("x", 4<<10) + `"}`)}, apierr.MessageTooLarge, "metadata has"},
		{"long instructions", protocol.Request{AgentID: "demo", System: strings.Repeat("x", 65<<10)}, apierr.MessageTooLarge, "instructions"},
		{"10,000 messages", conversation(make([]event.HistoryMessage, 10_000)...), apierr.MessageTooLarge, "messages has 10000 entries"},
		{"an unknown role", conversation(event.HistoryMessage{Role: "critic", Content: text}), apierr.InvalidMessageFormat, `messages[0].role is "critic"`},
		{"a user without content", conversation(event.HistoryMessage{Role: "user"}), apierr.InvalidMessageFormat, "messages[0].content"},
		{"a user with calls", conversation(event.HistoryMessage{Role: "user", Content: text, ToolCalls: []event.HistoryCall{{}}}), apierr.InvalidMessageFormat, "messages[0].toolCalls"},
		{"a call without an id", conversation(event.HistoryMessage{Role: "assistant", ToolCalls: []event.HistoryCall{{Name: "a"}}}), apierr.InvalidMessageFormat, "messages[0].toolCalls[0].id"},
		{"arguments that are a list", conversation(event.HistoryMessage{Role: "assistant", ToolCalls: []event.HistoryCall{{ID: "a", Name: "a", Args: json.RawMessage(`[]`)}}}), apierr.InvalidMessageFormat, "messages[0].toolCalls[0].args"},
		{"a result without a call", conversation(event.HistoryMessage{Role: "tool", Content: text}), apierr.InvalidMessageFormat, "messages[0].toolCallId"},
		{"a result of an unknown status", conversation(event.HistoryMessage{Role: "tool", ToolCallID: "a", Status: "odd"}), apierr.InvalidMessageFormat, "messages[0].status"},
		{"a part of an unknown type", conversation(event.HistoryMessage{Role: "user", Content: event.InputContent{{Type: "smell"}}}), apierr.InvalidMessageFormat, "messages[0].content[0].type"},
	}
	for _, test := range tests {
		_, err := protocol.Check(checkedAgents(), test.in)
		if test.code == "" {
			if err != nil {
				t.Errorf("%s: got %v", test.does, err)
			}
			continue
		}
		wantRefusal(t, test.does, err, test.code, test.says)
	}
}

func TestSystemMessagesBecomeInstructions(t *testing.T) {
	t.Parallel()
	r, err := protocol.Check(checkedAgents(), protocol.Request{AgentID: "demo", System: "A.", Conversation: []event.HistoryMessage{
		{Role: event.RoleSystem, Content: event.UserText("B.").Content},
		{Role: event.RoleUser, Content: event.UserText("hi").Content},
		{Role: event.RoleDeveloper, Content: event.UserText("C.").Content},
	}})
	if err != nil || r.System != "A.\n\nB.\n\nC." || len(r.Conversation) != 1 {
		t.Errorf("got %q, %+v, %v", r.System, r.Conversation, err)
	}
}
