// Package contextvar looks up values of a request's context, which texts of an operator name as {context.a.b}.
package contextvar

import (
	"encoding/json"
	"regexp"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// Prefix begins the name of a value of the context.
const Prefix = "context."

// place is the place of a value in a text.
var place = regexp.MustCompile(`\{context(?:\.[A-Za-z0-9_-]{1,64}){1,8}\}`)

// name is the name of a value.
var name = regexp.MustCompile(`^context(?:\.[A-Za-z0-9_-]{1,64}){1,8}$`)

// IsName reports whether text is the name of a value of the context: "context." and one to eight members, separated by
// dots.
func IsName(text string) bool { return name.MatchString(text) }

// Find returns the value that a name stands for in a context; nil if the context does not have it, or it is null.
func Find(context json.RawMessage, name string) json.RawMessage {
	path, ok := strings.CutPrefix(name, Prefix)
	if !ok || len(context) == 0 {
		return nil
	}
	for member := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		if jsonv2.Unmarshal(context, &object) != nil {
			return nil
		}
		context = object[member]
	}
	if string(context) == "null" {
		return nil
	}
	return context
}

// Text returns a value as text: a string as it is, anything else as JSON.
func Text(value json.RawMessage) string {
	var text string
	if len(value) == 0 || value[0] != '"' || jsonv2.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
}

// Fill replaces each {context.a.b} of a text by its value, and by nothing if the context does not have it. Other braces
// stay, and values are not filled again.
func Fill(text string, context json.RawMessage) string {
	text, _ = FillAll(text, context)
	return text
}

// FillAll is as [Fill], and reports whether the context has all values.
func FillAll(text string, context json.RawMessage) (filled string, complete bool) {
	if !HasPlace(text) {
		return text, true
	}
	complete = true
	filled = place.ReplaceAllStringFunc(text, func(found string) string {
		value := Find(context, strings.Trim(found, "{}"))
		complete = complete && value != nil
		return Text(value)
	})
	return filled, complete
}

// HasPlace reports whether a text names a value of the context.
func HasPlace(text string) bool { return strings.Contains(text, "{"+Prefix) && place.MatchString(text) }
