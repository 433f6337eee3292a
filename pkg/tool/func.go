package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
)

// Func makes a tool of a function over typed arguments. Arguments that do not fit the schema of spec, or In, never
// reach do: the call fails with apierr.ToolError, which names the member and shows what is expected. In decodes
// strictly: unknown members, members in another case and duplicate members are refused. A call without arguments counts
// as {}.
func Func[In any](spec Spec, do func(ctx context.Context, in In, call Call) (Result, error)) Tool {
	return &function[In]{
		spec:   spec,
		schema: sync.OnceValues(func() (*Schema, error) { return CompileSchema(spec) }),
		do:     do,
	}
}

type function[In any] struct {
	spec   Spec
	schema func() (*Schema, error)
	do     func(context.Context, In, Call) (Result, error)
}

// Spec describes the tool.
func (f *function[In]) Spec() Spec { return f.spec }

// Call checks the arguments and runs the function.
func (f *function[In]) Call(ctx context.Context, call Call) (Result, error) {
	if len(call.Args) == 0 {
		call.Args = json.RawMessage("{}")
	}
	in, err := f.decode(call.Args)
	if err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	return f.do(ctx, in, call)
}

func (f *function[In]) decode(args json.RawMessage) (In, error) {
	var in In
	schema, err := f.schema()
	if err != nil {
		return in, err
	}
	if err := schema.Check(args); err != nil {
		return in, err
	}
	// The type may be stricter than the schema: a duration that does not parse, an integer that does not fit.
	if err := jsonv2.Unmarshal(args, &in, jsonv2.RejectUnknownMembers(true)); err != nil {
		return in, schema.refuse(err, "%s", explain(err))
	}
	return in, nil
}

func explain(err error) string {
	semantic, ok := errors.AsType[*jsonv2.SemanticError](err)
	if !ok {
		return "they are not valid JSON"
	}
	member := strings.TrimPrefix(strings.ReplaceAll(string(semantic.JSONPointer), "/", "."), ".")
	if member == "" {
		return "they cannot be read"
	}
	if semantic.Err == nil {
		return fmt.Sprintf("%q cannot be a %s", cut(member, 80), semantic.JSONKind)
	}
	return fmt.Sprintf("%q: %s", cut(member, 80), cut(semantic.Err.Error(), 200))
}

var _ Tool = (*function[struct{}])(nil)
