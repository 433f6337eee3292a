package tarko

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// read decodes the body into value. An empty body counts as an empty object, and unknown members are ignored, because
// clients of several versions send them.
func read(x *protocol.Exchange, value any) error {
	body, err := x.Body()
	if err != nil || len(body) == 0 {
		return err
	}
	return decode(body, value)
}

func decode(body []byte, value any) error {
	if jsontext.Value(body).Kind() != jsontext.KindBeginObject {
		return invalid("The body must be a JSON object")
	}
	err := jsonv2.Unmarshal(body, value)
	if wrong, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		return invalid("%s has the wrong type", fieldPath(wrong.JSONPointer))
	}
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return invalid("The body is not valid JSON near byte %d, in %s", wrong.ByteOffset, fieldPath(wrong.JSONPointer))
	}
	if err != nil {
		return apierr.Wrap(err, apierr.InvalidMessageFormat, "The body is not valid JSON")
	}
	return nil
}

// fieldPath returns the path of a field of the body. Names come from a client and are truncated.
func fieldPath(p jsontext.Pointer) string {
	if p == "" {
		return "the body"
	}
	path := strings.ReplaceAll(strings.TrimPrefix(string(p), "/"), "/", ".")
	if len(path) > 120 {
		return strings.ToValidUTF8(path[:120], "") + "…"
	}
	return path
}

// checkObject returns an error unless a value is absent, or an object of at most limit bytes that nests at most 32
// levels.
func checkObject(name string, value json.RawMessage, most int) error {
	switch {
	case len(value) == 0:
		return nil
	case jsontext.Value(value).Kind() != jsontext.KindBeginObject:
		return invalid("%s must be an object", name)
	case len(value) > most:
		return invalid("%s is larger than %d bytes", name, most)
	case codec.NestedDeeper(value, maxDepth):
		return invalid("%s is nested more than %d levels deep", name, maxDepth)
	}
	return nil
}

const maxDepth = 32

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}
