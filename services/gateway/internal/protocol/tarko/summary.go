package tarko

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// maxSummary is the length of a summary, in characters.
const maxSummary = 60

// message is a message of a conversation as clients send it.
type message struct {
	Role    string        `json:"role"`
	Content tarko.Content `json:"content"`
}

// summary is the response of postSummary.
type summary struct {
	Summary  string `json:"summary"`
	Model    string `json:"model"`
	Provider string `json:"provider"`
}

// postSummary returns a name for a conversation: the start of its user's first message. It does not call a model,
// because listing sessions should cost nothing; the fields for the model are empty.
func (s *Server) postSummary(x *protocol.Exchange) error {
	var in struct {
		SessionID string    `json:"sessionId"`
		Messages  []message `json:"messages"`
	}
	if err := read(x, &in); err != nil {
		return err
	}
	found, err := s.mustFind(x, x.Query().Get("sessionId"), in.SessionID)
	if err != nil {
		return err
	}
	if len(in.Messages) == 0 {
		return invalid("Messages are required")
	}
	if name := title(in.Messages); name != "" {
		return x.Reply(http.StatusOK, summary{Summary: name})
	}
	meta, err := s.metadata(x.Context(), found)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, summary{Summary: meta.Name})
}

// title returns the start of a user's first message.
func title(messages []message) string {
	for _, m := range messages {
		if m.Role != event.RoleUser {
			continue
		}
		for _, part := range m.Content {
			if words := strings.Fields(part.Text); len(words) > 0 {
				return firstWords(words)
			}
		}
	}
	return ""
}

// firstWords joins as many words as fit into a summary.
func firstWords(words []string) string {
	text := words[0]
	for _, word := range words[1:] {
		if utf8.RuneCountInString(text)+1+utf8.RuneCountInString(word) > maxSummary {
			return text + "…"
		}
		text += " " + word
	}
	if runes := []rune(text); len(runes) > maxSummary {
		return string(runes[:maxSummary]) + "…"
	}
	return text
}
