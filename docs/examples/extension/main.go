// Command extension is agentbus with a backend and a tool of another module.
package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/agentbus"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
)

func main() {
	spec := tool.Spec{
		Name: "shout", Description: "Returns a text in capitals.", Effect: tool.EffectNone,
		Schema: json.RawMessage(`{"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}`),
	}
	agentbus.Main(
		agentbus.WithBackend("greeter", func(config.Agent) (backend.Backend, error) { return backend.Stateless(greeter{}), nil }),
		agentbus.WithTool(tool.Func(spec, shout)),
	)
}

type args struct {
	Text string `json:"text"`
}

func shout(_ context.Context, in args, _ tool.Call) (tool.Result, error) {
	loud := strings.ToUpper(in.Text)
	return tool.Result{Content: loud, Summary: loud}, nil // the model reads Content, clients see Summary
}

// greeter is a model with one answer.
type greeter struct{}

// Run implements backend.Model.
func (greeter) Run(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	return backend.Outcome{Finish: event.FinishStop, Model: "greeter"}, emit(backend.TextDelta("hello from my module"))
}
