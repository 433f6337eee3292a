package contextvar_test

import (
	"encoding/json"
	"testing"

	"github.com/agentbus/agentbus/pkg/contextvar"
)

func TestFill(t *testing.T) {
	t.Parallel()
	context := json.RawMessage(`{"name":"Ada","user":{"id":7,"tags":["a"]},"odd":"{context.name}","none":null}`)
	tests := []struct{ does, text, want string }{
		{"nothing to fill", "plain {text}", "plain {text}"},
		{"a string", "I am {context.name}.", "I am Ada."},
		{"a nested number", "{context.user.id}", "7"},
		{"an array as JSON", "{context.user.tags}", `["a"]`},
		{"an absent value", "[{context.user.name}]", "[]"},
		{"null", "[{context.none}]", "[]"},
		{"a member of a string", "[{context.name.x}]", "[]"},
		{"a value is not filled again", "{context.odd}", "{context.name}"},
		{"other braces stay", "{context} {context.} {{context.name}}", "{context} {context.} {Ada}"},
	}
	for _, test := range tests {
		if got := contextvar.Fill(test.text, context); got != test.want {
			t.Errorf("%s: got %q, want %q", test.does, got, test.want)
		}
	}
	if got := contextvar.Fill("[{context.name}]", nil); got != "[]" {
		t.Errorf("without a context: got %q, want %q", got, "[]")
	}
}

func TestIsName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"context.a": true, "context.a-b.c_d": true, "context": false, "context.": false, "context.a.": false, "a.b": false, "contexts.a": false,
	} {
		if got := contextvar.IsName(name); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
}
