package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema checks the arguments of a tool's calls. It is safe for concurrent use.
type Schema struct {
	tool     string
	compiled *jsonschema.Schema
	members  string // the arguments as a person would write them down, for messages
}

// CompileSchema reads the schema of spec, which must be a JSON Schema 2020-12 of type object. It fetches nothing: a
// reference to another document is an error.
func CompileSchema(spec Spec) (*Schema, error) {
	var document map[string]any
	if err := jsonv2.Unmarshal(spec.Schema, &document); err != nil {
		return nil, fmt.Errorf("schema of tool %s: %w", spec.Name, err)
	}
	if document["type"] != "object" {
		return nil, fmt.Errorf("schema of tool %s: its type must be \"object\"", spec.Name)
	}
	const url = "tool:///arguments"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // without a loader for any scheme
	if err := compiler.AddResource(url, document); err != nil {
		return nil, fmt.Errorf("schema of tool %s: %w", spec.Name, err)
	}
	compiled, err := compiler.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("schema of tool %s: %w", spec.Name, err)
	}
	return &Schema{tool: spec.Name, compiled: compiled, members: describe(compiled)}, nil
}

// Check returns a *apierr.Error with apierr.ToolError when args do not fit: it names the members that are wrong and shows
// what is expected, so that a model can correct itself.
func (s *Schema) Check(args json.RawMessage) error {
	var value any
	if err := jsonv2.Unmarshal(args, &value); err != nil {
		return s.refuse(err, "they are not valid JSON")
	}
	err := s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return s.refuse(err, "they do not fit the schema")
	}
	return s.refuse(err, "%s", strings.Join(complaints(invalid), "; "))
}

func (s *Schema) refuse(cause error, format string, args ...any) error {
	return apierr.Wrap(cause, apierr.ToolError, "wrong arguments for %s: %s; expected %s", s.tool, fmt.Sprintf(format, args...), s.members)
}

// complaints lists the first leaves of the tree of errors: the places that are wrong, not their parents.
func complaints(root *jsonschema.ValidationError) []string {
	const most = 5
	var list []string
	open := []*jsonschema.ValidationError{root}
	for len(open) > 0 && len(list) < most {
		e := open[0]
		open = append(slices.Clone(e.Causes), open[1:]...)
		if len(e.Causes) == 0 {
			list = append(list, complaint(e))
		}
	}
	return list
}

func complaint(e *jsonschema.ValidationError) string {
	text := "wrong"
	if unit := e.BasicOutput(); unit.Error != nil {
		text = unit.Error.String()
	}
	text = cut(text, 200)
	if len(e.InstanceLocation) == 0 {
		return text
	}
	return fmt.Sprintf("%q: %s", cut(strings.Join(e.InstanceLocation, "."), 80), text)
}

// describe writes the members of an object as {"url": string, "count"?: integer}.
func describe(s *jsonschema.Schema) string {
	members := make([]string, 0, len(s.Properties))
	for name, property := range s.Properties {
		optional := "?"
		if slices.Contains(s.Required, name) {
			optional = ""
		}
		members = append(members, fmt.Sprintf("%q%s: %s", name, optional, typeOf(property)))
	}
	slices.Sort(members)
	return "{" + strings.Join(members, ", ") + "}"
}

func typeOf(s *jsonschema.Schema) string {
	if s.Types == nil || s.Types.IsEmpty() {
		return "any"
	}
	return strings.Join(s.Types.ToStrings(), " or ")
}

// cut shortens s to at most limit runes.
func cut(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}
