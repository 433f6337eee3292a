package remoteagent

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxPointer bounds what an explanation repeats of a document, in bytes.
const maxPointer = 120

// ExplainJSON says for the author of a JSON document why it was refused: the member and the mistake, and no Go type.
func ExplainJSON(err error) string {
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Sprintf("%.*q is not a known member; names are case-sensitive", maxPointer, semantic.JSONPointer)
		}
		if semantic.JSONPointer == "" {
			return "it must be a JSON object"
		}
		return fmt.Sprintf("%.*q must not be a JSON %s", maxPointer, semantic.JSONPointer, semantic.JSONKind)
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Sprintf("%.*q appears twice", maxPointer, syntactic.JSONPointer)
		}
		return fmt.Sprintf("it is not valid JSON near byte %d", syntactic.ByteOffset)
	}
	return "it is not valid JSON"
}
