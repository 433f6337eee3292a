package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/event"
)

// decided is a conversation whose newest turn has asked for the permission of a call, with the result of its approval.
func decided(text, args string, status event.ToolStatus, content string) []backend.Message {
	return []backend.Message{
		user("test it"),
		{Role: backend.Assistant, Parts: []backend.Part{backend.Call{ID: "c", Name: "Bash", Args: []byte(args), Signature: "permission"}}},
		{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: "c", Name: "Bash", Status: status, Content: content}}},
		user(text),
	}
}

func TestClaudeCodeAsksForPermissions(t *testing.T) {
	t.Parallel()
	const asks = `Bash {"command":"make test"}`
	const asked = "call Bash {\"command\":\"make test\"}"
	tests := []struct {
		name     string
		messages []backend.Message
		response string // to the request for the permission
		want     []string
	}{
		{"the user must decide", []backend.Message{user(asks)}, `{"behavior":"deny","message":"The user has not decided yet.","interrupt":true}`,
			[]string{"t0 denied it waits for the approval of the user", asked, "tool_calls"}},
		{"the user has allowed the call", decided(asks, `{"command": "make test"}`, event.ToolSuccess, "the user allowed this call"),
			`{"behavior":"allow","updatedInput":{"command":"make test"}}`, []string{"t2 success allowed: true", "stop"}},
		{"the user has denied the call", decided(asks, `{"command":"make test"}`, event.ToolDenied, "the user denied this call: no"),
			`{"behavior":"deny","message":"The user denied this call."}`, []string{"t2 denied allowed: false", "stop"}},
		{"the user has allowed another call", decided(asks, `{"command":"make"}`, event.ToolSuccess, "the user allowed this call"),
			`"interrupt":true`, []string{"t2 denied it waits for the approval of the user", asked, "tool_calls"}},
		{"a permission counts once", decided(asks+"\n"+asks, `{"command":"make test"}`, event.ToolSuccess, "the user allowed this call"),
			`"interrupt":true`, []string{"t2 success allowed: true", "t3 denied it waits for the approval of the user", asked, "tool_calls"}},
		{"a question has no room in an approval", []backend.Message{user(`AskUserQuestion {"questions":[]}`)},
			`{"behavior":"deny","message":"The user cannot answer now.`, []string{"t0 error allowed: false", "stop"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			a := backendtest.Send(t.Context(), Claude(b.options(Options{Permissions: permission.Ask})), backend.State{ID: "s1"},
				backend.Turn{Messages: tt.messages, Known: len(tt.messages) - 1})
			if a.Err != nil {
				t.Fatal(a.Err)
			}
			if got := append(happened(a.Chunks), string(a.Outcome.Finish)); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%q, want\n%q", got, tt.want)
			}
			if got := b.left("dialog"); !strings.Contains(got, tt.response) {
				t.Errorf("the program got\n%s, want %s", got, tt.response)
			}
		})
	}
}

// happened lists how the calls of a turn ended, and those that it asks for.
func happened(chunks []backend.Chunk) (list []string) {
	for _, c := range chunks {
		switch c := c.(type) {
		case backend.ToolEnded:
			list = append(list, fmt.Sprintf("%s %s %s", c.ID, c.Status, c.Content))
		case backend.CallStart:
			list = append(list, "call "+c.Name)
			if c.Gate != backend.GateAgentApproval {
				list = append(list, "gate "+string(c.Gate))
			}
		case backend.CallDelta:
			list[len(list)-1] += " " + c.Args
		}
	}
	return list
}

func TestADialogThatBreaks(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]string{
		"deaf": "does not read the responses to its requests",
		"die":  "Claude Code failed: exit status 3",
	} {
		a := backendtest.Send(t.Context(), Claude(newBench(t).options(Options{Permissions: permission.Ask})), backend.State{}, say(prompt))
		if a.Err == nil || !strings.Contains(a.Err.Error(), want) {
			t.Errorf("%s: got %v, want %q", prompt, a.Err, want)
		}
	}
}
