package prompt

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

func user(text string) backend.Message {
	return backend.Message{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}
}

func TestPrompts(t *testing.T) {
	t.Parallel()
	assistant := backend.Message{Role: backend.Assistant, Parts: []backend.Part{
		backend.Thinking{Text: "hm"}, backend.Text{Text: "I look."}, backend.Call{ID: "c", Name: "read", Args: []byte(`{"path":"a"}`)},
	}}
	result := backend.Message{Role: backend.Tool, Parts: []backend.Part{
		backend.Result{ID: "c", Name: "read", Content: "A", Status: event.ToolSuccess},
	}}
	picture := backend.Message{Role: backend.User, Parts: []backend.Part{
		backend.Media{Input: event.InputPart{Type: "image", URL: "https://example.com/a.png"}},
		backend.Media{Input: event.InputPart{Type: "image", MediaType: "image/png", Name: "b.png", Data: []byte("b")}},
	}}
	tests := []struct {
		name     string
		messages []backend.Message
		want     string
	}{
		{"the user's text alone", []backend.Message{user("one"), user("two")}, "one\n\ntwo"},
		{"pictures are described", []backend.Message{picture}, "[image https://example.com/a.png]\n[image \"b.png\" (image/png, 1 bytes), which cannot be shown here]"},
		{"a conversation has its speakers", []backend.Message{user("one"), assistant, result, user("two")},
			"This is the conversation until now.\n\nUser:\none\n\nAssistant:\nI look.\n[called read with {\"path\":\"a\"}]\n\n" +
				"Tool read gave (success):\nA\n\nUser:\ntwo\n\nAnswer what the user said last."},
		{"an answer that was interrupted continues", []backend.Message{user("one"), assistant, result},
			"This is the conversation until now.\n\nUser:\none\n\nAssistant:\nI look.\n[called read with {\"path\":\"a\"}]\n\n" +
				"Tool read gave (success):\nA\n\nThe answer was interrupted there. Continue it, and do not repeat what is done."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Of(tt.messages, 1<<20); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

func TestLongConversationKeepsNewestPart(t *testing.T) {
	t.Parallel()
	const limit = 512 << 10
	answer := backend.Message{Role: backend.Assistant, Parts: []backend.Part{backend.Text{Text: "I look."}}}
	long := make([]backend.Message, 0, 101)
	for range 50 {
		long = append(long, user(strings.Repeat("x", maxPart)), answer)
	}
	parts := slices.Repeat([]backend.Part{backend.Text{Text: strings.Repeat("é", maxPart/2)}}, 20)
	parts = append(parts, backend.Text{Text: "last"})
	for name, messages := range map[string][]backend.Message{
		"many contributions": append(long, user("last")),
		"one that is longer": {answer, {Role: backend.User, Parts: parts}},
		"nothing behind it":  {answer, {Role: backend.User, Parts: parts}, {Role: backend.Tool}},
	} {
		got := Of(messages, limit)
		if len(got) < limit/2 || len(got) > limit+1000 || !utf8.ValidString(got) || !strings.Contains(got, "last") || !strings.Contains(got, leftOut) {
			t.Errorf("%s: got %d bytes", name, len(got))
		}
	}
	alone := strings.Repeat("x", 2*limit)
	if got := Of([]backend.Message{user(alone)}, limit); got != alone {
		t.Errorf("what the user says alone was cut to %d bytes", len(got))
	}
}
