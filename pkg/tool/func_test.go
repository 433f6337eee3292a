package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
)

type greeting struct {
	Name  string `json:"name"`
	Times int8   `json:"times,omitzero"`
}

func greet() tool.Tool {
	spec := tool.Spec{
		Name: "greet", Description: "Greets.", Effect: tool.EffectNone, Approval: tool.ApprovalNever,
		Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string","minLength":1},
			"times":{"type":"integer","minimum":1}},"required":["name"],"additionalProperties":false}`),
	}
	return tool.Func(spec, func(_ context.Context, in greeting, _ tool.Call) (tool.Result, error) {
		return tool.Result{Content: strings.Repeat("hello "+in.Name+" ", max(int(in.Times), 1))}, nil
	})
}

func TestFuncDecodesArguments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args string
		want       string   // the content, when the call succeeds
		complaint  []string // what the message must hold, when it does not
	}{
		{"all members", `{"name":"Ada","times":2}`, "hello Ada hello Ada ", nil},
		{"an optional member may be absent", `{"name":"Ada"}`, "hello Ada ", nil},
		{"a missing member", `{}`, "", []string{"name", `expected {"name": string, "times"?: integer}`}},
		{"no arguments at all", ``, "", []string{"name"}},
		{"an unknown member", `{"name":"Ada","nmae":"x"}`, "", []string{"nmae"}},
		{"a member in another case", `{"NAME":"Ada"}`, "", []string{"NAME"}},
		{"a wrong type", `{"name":7}`, "", []string{`"name"`, "want string"}},
		{"null", `{"name":null}`, "", []string{`"name"`, "want string"}},
		{"a value out of the schema's range", `{"name":"Ada","times":0}`, "", []string{`"times"`}},
		{"a value out of the type's range", `{"name":"Ada","times":1000}`, "", []string{`"times"`}},
		{"a duplicate member", `{"name":"Ada","name":"Eve"}`, "", []string{"not valid JSON"}},
		{"no object", `["Ada"]`, "", []string{"want object"}},
		{"no JSON", `{"name":`, "", []string{"not valid JSON"}},
		{"invalid UTF-8", "{\"name\":\"\xff\"}", "", []string{"not valid JSON"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			result, err := greet().Call(t.Context(), tool.Call{ID: "call_1", Args: json.RawMessage(test.args)})
			if len(test.complaint) == 0 {
				if err != nil || result.Content != test.want {
					t.Fatalf("got %q, %v, want %q", result.Content, err, test.want)
				}
				return
			}
			if code := apierr.CodeOf(err); code != apierr.ToolError {
				t.Fatalf("got code %q (%v), want %q", code, err, apierr.ToolError)
			}
			for _, part := range test.complaint {
				if message := apierr.From(err).Message; !strings.Contains(message, part) {
					t.Errorf("message %q does not say %q", message, part)
				}
			}
		})
	}
}

func TestFuncDoesNotStartWhenItsContextIsDone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := greet().Call(ctx, tool.Call{Args: json.RawMessage(`{"name":"Ada"}`)}); err == nil {
		t.Error("got nil, want the context's error")
	}
}

func TestCompileSchemaRefusesWhatIsNoObjectSchema(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, schema string }{
		{"nothing", ``},
		{"no JSON", `{`},
		{"another type", `{"type":"string"}`},
		{"no type", `{}`},
		{"a type that does not exist", `{"type":"object","properties":{"a":{"type":"text"}}}`},
		{"a reference to a file", `{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`},
		{"a reference to the network", `{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1/schema"}}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := tool.CompileSchema(tool.Spec{Name: "x", Schema: json.RawMessage(test.schema)}); err == nil {
				t.Error("got nil, want an error")
			}
		})
	}
}

// FuzzFuncArguments holds that no argument text makes a call panic or fail without a code.
func FuzzFuncArguments(f *testing.F) {
	for _, args := range []string{`{"name":"Ada"}`, `{"name":7}`, `{"times":1e400}`, `[[[[`, `{"name":"\ud800"}`, `null`} {
		f.Add(args)
	}
	subject := greet()
	f.Fuzz(func(t *testing.T, args string) {
		result, err := subject.Call(t.Context(), tool.Call{Args: json.RawMessage(args)})
		if err != nil && apierr.CodeOf(err) != apierr.ToolError {
			t.Errorf("Call(%q): %v, want code %q", args, err, apierr.ToolError)
		}
		if err == nil && !strings.HasPrefix(result.Content, "hello ") {
			t.Errorf("Call(%q): got %q", args, result.Content)
		}
	})
}
