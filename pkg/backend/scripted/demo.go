package scripted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
)

// The tools that the demo can use.
const (
	calculator = "calculator"
	clock      = "clock"
)

// demo is the script for a prompt of ordinary words: first a sentence and a tool, then a sentence about its result.
func demo(turn backend.Turn, prompt string, n int) ([]Command, error) {
	if n > 0 {
		return []Command{Say{Text: conclude(lastResult(turn))}}, nil
	}
	expression := arithmetic(prompt)
	if expression != "" && offers(turn.Tools, calculator) {
		args, err := jsonv2.Marshal(map[string]string{"expression": expression})
		if err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", calculator, err)
		}
		return []Command{
			Say{Text: fmt.Sprintf("I am a script, not a model, but the calculator can work out %s.", expression)},
			Use{Calls: []Call{{Name: calculator, Args: args}}},
		}, nil
	}
	if offers(turn.Tools, clock) {
		return []Command{
			Say{Text: "I am a script, not a model, so I cannot answer that. I can look at the clock."},
			Use{Calls: []Call{{Name: clock, Args: json.RawMessage("{}")}}},
		}, nil
	}
	return []Command{Say{Text: "I am a script, not a model, so I cannot answer that. " + hint}}, nil
}

// summaryWords is how many words a summary keeps.
const summaryWords = 40

// summarise is the script for a conversation that is to be summarised.
func summarise(conversation string) []Command {
	words := strings.Fields(conversation)
	return []Command{Say{Text: fmt.Sprintf("A conversation of %d words, which began: %s",
		len(words), strings.Join(words[:min(len(words), summaryWords)], " "))}}
}

const hint = "Write lines such as \"/say hello\" or \"/tool clock {}\"."

func conclude(r backend.Result) string {
	result := strings.TrimSpace(r.Content)
	switch {
	case r.Name == "":
		return hint
	case r.Status != event.ToolSuccess:
		return fmt.Sprintf("The %s gave no result (%s). %s", r.Name, r.Status, hint)
	case r.Name == calculator:
		return fmt.Sprintf("The result is %s. %s", result, hint)
	default:
		return fmt.Sprintf("The %s says %s. %s", r.Name, result, hint)
	}
}

func lastResult(turn backend.Turn) backend.Result {
	for _, m := range slices.Backward(turn.Messages) {
		for _, part := range slices.Backward(m.Parts) {
			if r, ok := part.(backend.Result); ok {
				return r
			}
		}
	}
	return backend.Result{}
}

func offers(tools []tool.Spec, name string) bool {
	return slices.ContainsFunc(tools, func(s tool.Spec) bool { return s.Name == name })
}

// sum matches numbers with operators between them, for example "6*7" or "(1 + 2) / 3".
var sum = regexp.MustCompile(`[-(]*\d+(?:\.\d+)?\)*(?:\s*[-+*/%^]\s*[-(]*\d+(?:\.\d+)?\)*)+`)

// arithmetic returns the first expression with balanced parentheses in a prompt, or "".
func arithmetic(prompt string) string {
	for _, found := range sum.FindAllString(prompt, -1) {
		if balanced(found) {
			return found
		}
	}
	return ""
}

func balanced(s string) bool {
	depth := 0
	for _, c := range s {
		switch c {
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return false
			}
		}
	}
	return depth == 0
}
