package openai

import (
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/shared"
)

// effort returns the level of effort of a turn. Without one nothing is asked for, since models that do not reason refuse the
// question.
func effort(turn backend.Turn) shared.ReasoningEffort {
	switch budget := turn.Thinking; {
	case turn.Effort != "":
		return shared.ReasoningEffort(turn.Effort) // the API has the same names
	case budget <= 0:
		return ""
	case budget <= 2048:
		return shared.ReasoningEffortLow
	case budget <= 8192:
		return shared.ReasoningEffortMedium
	default:
		return shared.ReasoningEffortHigh
	}
}

// returnsOf returns which thinking goes back to a model whose agent does not say. Providers differ: one refuses thinking that
// it did not ask for, another one refuses a conversation without it.
func returnsOf(model string) ReturnThinking {
	name := strings.ToLower(model)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
	}
	switch {
	case has("deepseek-v4", "deepseek-flash", "deepseek-pro"):
		return ReturnAlways
	case has("deepseek", "glm-", "kimi-"):
		return ReturnTurn
	default:
		return ReturnNever
	}
}

const reasoningContent = "reasoning_content"

// returnThinking adds to the messages of the assistant what it thought, from the message first on. A conversation of which
// another model made a part has an empty member there: a server that wants all thinking back wants the member, too.
func (c *conversation) returnThinking(m *sdk.ChatCompletionAssistantMessageParam, parts []backend.Part) {
	if c.returns == ReturnNever {
		return
	}
	member, text := reasoningContent, ""
	for _, part := range parts {
		thinking, ok := part.(backend.Thinking)
		if !ok {
			continue
		}
		if n, own := read(thinking.Signature, chatAPI, c.model); own {
			member, text = n.Member, text+thinking.Text
		}
	}
	if text != "" || c.returns == ReturnAlways {
		m.SetExtraFields(map[string]any{member: text})
	}
}

// splitter finds thinking in text: local models mark it by tags.
type splitter struct {
	inside bool
	held   string // what may be the begin of a tag
}

const (
	openTag  = "<think>"
	closeTag = "</think>"
)

// split emits a piece of the text as text and thinking. The last call has an empty piece.
func (s *splitter) split(piece string, text, thinking func(string) error) error {
	last := piece == ""
	piece = s.held + piece
	s.held = ""
	for {
		tag, emit := openTag, text
		if s.inside {
			tag, emit = closeTag, thinking
		}
		before, after, found := strings.Cut(piece, tag)
		if !found {
			before = piece
			if !last {
				before = piece[:len(piece)-overlap(piece, tag)]
			}
			s.held = piece[len(before):]
		}
		if before != "" {
			if err := emit(before); err != nil {
				return err
			}
		}
		if !found {
			return nil
		}
		s.inside, piece = !s.inside, after
	}
}

// overlap returns how many bytes at the end of text may be the begin of a tag.
func overlap(text, tag string) int {
	for n := min(len(text), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(text, tag[:n]) {
			return n
		}
	}
	return 0
}
