// Package calculator is a built-in tool: it works out arithmetic, which models are bad at. parser.go has the language.
package calculator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Name is the tool's name.
const Name = "calculator"

const schema = `{
	"type": "object",
	"properties": {
		"expression": {
			"type": "string", "minLength": 1, "maxLength": 1000,
			"description": "Such as (1 + 2) * 3 ^ 2 or round(sqrt(2), 4). ` +
	`Operators: + - * / % ^ and parentheses. Functions: sqrt, abs, min, max, round."
		}
	},
	"required": ["expression"],
	"additionalProperties": false
}`

type args struct {
	Expression string `json:"expression"`
}

// New returns the tool.
func New() tool.Tool {
	spec := tool.Spec{
		Name:        Name,
		Description: "Works out an arithmetic expression, to about 15 digits.",
		Schema:      json.RawMessage(schema),
		Effect:      tool.EffectNone,
		Approval:    tool.ApprovalNever,
		Timeout:     5 * time.Second,
	}
	return tool.Func(spec, func(_ context.Context, in args, _ tool.Call) (tool.Result, error) {
		value, err := Eval(in.Expression)
		if err != nil {
			return tool.Result{}, apierr.Wrap(err, apierr.ToolError, "cannot work out %.80q: %v", in.Expression, err)
		}
		text := Format(value)
		return tool.Result{Content: text, Summary: in.Expression + " = " + text}, nil
	})
}
