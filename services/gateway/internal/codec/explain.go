package codec

import (
	"errors"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Explain converts the error of decoding a body into an apierr.InvalidMessageFormat that names the member, without the names
// of Go types.
func Explain(err error) error {
	invalid := func(format string, args ...any) error {
		return apierr.New(apierr.InvalidMessageFormat, format, args...)
	}
	if known, ok := errors.AsType[*apierr.Error](err); ok {
		return known
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return invalid("%s appears twice; send it once", Path(syntactic.JSONPointer))
		}
		return invalid("the body is not valid JSON near byte %d, in %s", syntactic.ByteOffset, Path(syntactic.JSONPointer))
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return invalid("%s has the wrong type", Path(semantic.JSONPointer))
	}
	return invalid("the body is not valid JSON")
}
