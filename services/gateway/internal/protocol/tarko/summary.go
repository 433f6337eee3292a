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

// message is one of a conversation, as clients send it.
type message struct {
	Role    string        `json:"role"`
	Content tarko.Content `json:"content"`
}

// summary is the answer of postSummary.
type summary struct {
	Summary  string `json:"summary"`
	Model    string `json:"model"`
	Provider string `json:"provider"`
}

// postSummary names a conversation, for a list: by the start of what its user said first. No model is asked, so the answer
// names none: a list of sessions should cost nothing.
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
	if name := opening(in.Messages); name != "" {
		return x.Reply(http.StatusOK, summary{Summary: name})
	}
	noted, err := s.metadata(x.Context(), found)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, summary{Summary: noted.Name})
}

// opening is the start of the first words of a user.
func opening(messages []message) string {
	for _, m := range messages {
		if m.Role != event.RoleUser {
			continue
		}
		for _, part := range m.Content {
			if words := strings.Fields(part.Text); len(words) > 0 {
				return start(words)
			}
		}
	}
	return ""
}

// start joins as many words as a summary has room for.
func start(words []string) string {
	said := words[0]
	for _, word := range words[1:] {
		if utf8.RuneCountInString(said)+1+utf8.RuneCountInString(word) > maxSummary {
			return said + "…"
		}
		said += " " + word
	}
	if runes := []rune(said); len(runes) > maxSummary {
		return string(runes[:maxSummary]) + "…"
	}
	return said
}
