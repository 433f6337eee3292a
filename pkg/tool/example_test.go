package tool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
)

// A tool is a function over typed arguments. Arguments that do not match the schema do not reach it; the error is for the
// model what is wrong.
func ExampleFunc() {
	spec := tool.Spec{
		Name:        "add",
		Description: "Adds two integers.",
		Schema: json.RawMessage(`{
			"type": "object",
			"properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
			"required": ["a", "b"]
		}`),
		Effect:   tool.EffectNone,
		Approval: tool.ApprovalNever,
	}
	type arguments struct {
		A int64 `json:"a"`
		B int64 `json:"b"`
	}
	add := tool.Func(spec, func(_ context.Context, in arguments, _ tool.Call) (tool.Result, error) {
		return tool.Result{Content: fmt.Sprint(in.A + in.B)}, nil
	})

	for _, args := range []string{`{"a": 40, "b": 2}`, `{"a": 40}`} {
		result, err := add.Call(context.Background(), tool.Call{Args: json.RawMessage(args)})
		if err != nil {
			fmt.Println(apierr.From(err).Message)
			continue
		}
		fmt.Println(result.Content)
	}
	// Output:
	// 42
	// wrong arguments for add: missing property 'b'; expected {"a": integer, "b": integer}
}
