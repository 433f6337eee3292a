// Package scripted is the backend that needs neither network nor key: the agent "demo", and the workhorse of tests and
// load runs. It never pretends to be a model.
//
// A prompt whose first line starts with "/" is a script, run line by line:
//
//	/say TEXT                         streams a text, word by word
//	/think TEXT                       the same as thinking
//	/stream N RATE [BYTES]            N deltas of text in one block, RATE a second (0 = as fast as it goes)
//	/tool NAME {json}                 calls a tool, and continues in the next turn
//	/tools NAME {json}; NAME {json}   calls several at once
//	/client-tool NAME {json}          lets the client run it
//	/approve NAME {json}              calls it once a person allows it
//	/ask QUESTION                     asks the user
//	/plan STEP; STEP                  says what the script means to do
//	/plan-done N                      step N of the plan is done
//	/plan-finish SUMMARY              the plan is done
//	/answer TITLE | TEXT              streams a final answer
//	/custom TYPE {json}               emits an event of an application
//	/sleep DURATION                   waits
//	/fail CODE [retryable]            ends with this error
//	/usage IN OUT                     counts these tokens, in place of words
//
// Any other prompt gets a short answer that uses the clock or the calculator. Read script.go for the language, plan.go
// for its plans, run.go for the commands, demo.go for the short answer.
package scripted

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// Model is the name that the backend answers under.
const Model = "scripted"

// Backend runs scripts. It has no state: the conversation determines the position in a script.
type Backend struct{}

var _ backend.Model = Backend{}

// New returns the backend.
func New() Backend { return Backend{} }

// Options are the members of Turn.Options that the backend reads.
type Options struct {
	Script string `json:"script"` // runs whatever the prompt says
}

// Run implements [backend.Model]. The same turn gives the same chunks.
func (Backend) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	n := position(turn.Messages) + turn.Summarised
	outcome := backend.Outcome{
		Model: Model, ID: fmt.Sprintf("%s_%s_%d", Model, turn.RequestID, n), Finish: event.FinishStop,
	}
	commands, err := choose(turn, n)
	if err != nil {
		return outcome, err
	}
	p := player{emit: emit}
	err = p.play(ctx, commands)
	outcome.Usage = p.usage(turn)
	if p.calls > 0 {
		outcome.Finish = event.FinishToolCalls
	}
	return outcome, err
}

// choose returns the commands of turn number n since the user spoke.
func choose(turn backend.Turn, n int) ([]Command, error) {
	prompt := lastPrompt(turn.Messages)
	if turn.Summarise {
		return summarise(prompt), nil
	}
	var options Options
	if len(turn.Options) > 0 {
		if err := json.Unmarshal(turn.Options, &options); err != nil {
			return nil, apierr.Wrap(err, apierr.AgentError, "the options of the agent are not an object with a script")
		}
	}
	if options.Script != "" {
		prompt = options.Script
	}
	if options.Script == "" && !IsScript(prompt) {
		return demo(turn, prompt, n)
	}
	commands, err := Parse(prompt)
	if err != nil {
		return nil, err
	}
	return segment(commands, n), nil
}

// position counts what the assistant said since the user spoke: each of its messages is a turn.
func position(messages []backend.Message) int {
	n := 0
	for _, m := range slices.Backward(messages) {
		if m.Role == backend.User {
			break
		}
		if m.Role == backend.Assistant {
			n++
		}
	}
	return n
}

// lastPrompt is the text of the user's last message, one part to a line.
func lastPrompt(messages []backend.Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Role != backend.User {
			continue
		}
		var parts []string
		for _, part := range m.Parts {
			if text, ok := part.(backend.Text); ok {
				parts = append(parts, text.Text)
			}
		}
		return strings.Join(parts, "\n")
	}
	return ""
}
