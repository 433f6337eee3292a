package remote

import (
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/media"
)

// maxPrompt bounds a prompt, in bytes: agents take no longer tasks. Of a longer conversation the newest part is told.
const maxPrompt = 240 << 10

// tell makes one text of messages: what the user said or, where others said something too, the conversation.
func tell(messages []backend.Message) string {
	talk := false
	for _, m := range messages {
		talk = talk || m.Role != backend.User
	}
	var said []string
	for _, m := range messages {
		if text := contribution(m); text != "" && talk {
			said = append(said, string(m.Role)+":\n"+text)
		} else if text != "" {
			said = append(said, text)
		}
	}
	text := strings.Join(said, "\n\n")
	if len(text) > maxPrompt {
		text = "[The older part is left out.]\n" + strings.ToValidUTF8(text[len(text)-maxPrompt:], "")
	}
	if talk {
		return "This is the conversation until now. Answer what the user said last.\n\n" + text
	}
	return text
}

func contribution(m backend.Message) string {
	var parts []string
	for _, p := range m.Parts {
		switch p := p.(type) {
		case backend.Text:
			parts = append(parts, p.Text)
		case backend.Result:
			parts = append(parts, fmt.Sprintf("[%s gave (%s): %s]", p.Name, p.Status, p.Content))
		case backend.Media:
			parts = append(parts, "["+media.Describe(p.Input)+", which cannot be shown here]")
		}
	}
	return strings.Join(parts, "\n")
}
