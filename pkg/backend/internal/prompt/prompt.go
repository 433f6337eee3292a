// Package prompt makes one text of messages, for agents that are asked in words: programs and agents on other machines.
package prompt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/media"
)

// maxPart bounds one part of a conversation, in bytes.
const maxPart = 64 << 10

// Of returns the prompt for an agent (agentic, format_messages): the user's message, or the conversation if it has
// other contributions that the agent has not received. If a conversation is longer than limit bytes, its newest part is
// used; a single message of the user is never cut.
func Of(messages []backend.Message, limit int) string {
	said := make([]string, 0, len(messages))
	talk := false
	for _, m := range messages {
		talk = talk || m.Role != backend.User
	}
	for _, m := range messages {
		var parts []string
		for _, p := range m.Parts {
			if text := tellPart(p, talk); text != "" {
				parts = append(parts, text)
			}
		}
		text := strings.Join(parts, "\n")
		if text == "" {
			continue
		}
		if talk {
			text = speaker(m.Role) + text
		}
		said = append(said, text)
	}
	if !talk {
		return strings.Join(said, "\n\n")
	}
	ask := "Answer what the user said last."
	if messages[len(messages)-1].Role != backend.User {
		ask = "The answer was interrupted there. Continue it, and do not repeat what is done."
	}
	return "This is the conversation until now.\n\n" + strings.Join(newest(said, limit), "\n\n") + "\n\n" + ask
}

func speaker(role backend.Role) string {
	switch role {
	case backend.User:
		return "User:\n"
	case backend.Assistant:
		return "Assistant:\n"
	default:
		return ""
	}
}

const leftOut = "[The older part is left out.]"

// newest returns the end of a conversation that fits into room bytes. If a single contribution does not fit, its end is
// used.
func newest(said []string, room int) []string {
	for i, text := range slices.Backward(said) {
		if room -= len(text); room >= 0 {
			continue
		}
		if i == len(said)-1 {
			return []string{leftOut, strings.ToValidUTF8(text[-room:], "")}
		}
		return append([]string{leftOut}, said[i+1:]...)
	}
	return said
}

func tellPart(p backend.Part, talk bool) string {
	switch p := p.(type) {
	case backend.Text:
		if talk {
			return abridged(p.Text)
		}
		return p.Text
	case backend.Call:
		return fmt.Sprintf("[called %s with %s]", p.Name, abridged(string(p.Args)))
	case backend.Result:
		return fmt.Sprintf("Tool %s gave (%s):\n%s", p.Name, p.Status, abridged(p.Content))
	case backend.Media:
		if p.Input.URL != "" {
			return fmt.Sprintf("[%s %s]", p.Input.Type, p.Input.URL)
		}
		return "[" + media.Describe(p.Input) + ", which cannot be shown here]"
	default: // thinking is left out
		return ""
	}
}

func abridged(text string) string {
	if len(text) <= maxPart {
		return text
	}
	return strings.ToValidUTF8(text[:maxPart], "") + " […]"
}
