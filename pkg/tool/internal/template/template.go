// Package template fills texts of an operator with the arguments of a call. It has no expressions: a text has places,
// and no argument can add one.
package template

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/contextvar"
	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Args are the arguments of a call by name. One that is null counts as missing.
type Args map[string]json.RawMessage

// Has reports whether there is an argument.
func (a Args) Has(name string) bool {
	value, ok := a[name]
	return ok && jsontext.Value(value).Kind() != 'n'
}

// With returns the arguments with the values of a request's context that names lists, as context.a.b. An argument of the
// model never replaces one.
func (a Args) With(context json.RawMessage, names []string) Args {
	if len(names) == 0 {
		return a
	}
	all := maps.Clone(a)
	if all == nil {
		all = Args{}
	}
	for _, name := range names {
		delete(all, name)
		if value := contextvar.Find(context, name); value != nil {
			all[name] = value
		}
	}
	return all
}

// ContextNames lists the values of the request's context that texts have places for.
func ContextNames(texts ...Text) []string {
	var names []string
	for _, t := range texts {
		for _, name := range t.Arguments() {
			if contextvar.IsName(name) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// text is an argument as a text: a string as it is, anything else as JSON.
func (a Args) text(name string) string {
	var text string
	if value := a[name]; jsontext.Value(value).Kind() != '"' || jsonv2.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
}

// Secrets gives the value of a secret by its name.
type Secrets func(name string) (string, error)

// Text is a text with places for arguments.
type Text struct{ parts []part }

// part is a literal, or the place of an argument.
type part struct {
	literal  string
	argument string
}

// Parse reads a text: "{name}" is the place of an argument, "{context.a.b}" that of a value of the request's context,
// "${NAME}" becomes the secret of that name, and "{{" and "}}" are braces. The value of a secret is not parsed.
func Parse(text string, secrets Secrets) (Text, error) {
	var t Text
	for text != "" {
		at := strings.IndexAny(text, "{}$")
		if at < 0 {
			at = len(text)
		}
		t.literal(text[:at])
		text = text[at:]
		var err error
		if text, err = t.special(text, secrets); err != nil {
			return Text{}, err
		}
	}
	return t, nil
}

// special reads text that begins with a brace or a dollar, and returns the rest.
func (t *Text) special(text string, secrets Secrets) (rest string, err error) {
	switch {
	case text == "":
		return "", nil
	case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
		t.literal(text[:1])
		return text[2:], nil
	case strings.HasPrefix(text, "${"):
		name, rest, ok := strings.Cut(text[2:], "}")
		if !ok || name == "" {
			return "", fmt.Errorf("%.40q has no end; write ${NAME}", text)
		}
		value, err := secrets(name)
		if err != nil {
			return "", err
		}
		t.literal(value)
		return rest, nil
	case text[0] == '{':
		name, rest, ok := strings.Cut(text[1:], "}")
		if !ok || !id.Valid(name) && !contextvar.IsName(name) {
			return "", fmt.Errorf("%.40q is not the place of an argument; write {name}, {context.name}, or {{ for a brace", text)
		}
		t.parts = append(t.parts, part{argument: name})
		return rest, nil
	case text[0] == '}':
		return "", fmt.Errorf("%.40q begins with a brace that ends nothing; write }} for a brace", text)
	default:
		t.literal(text[:1])
		return text[1:], nil
	}
}

func (t *Text) literal(text string) {
	if text != "" {
		t.parts = append(t.parts, part{literal: text})
	}
}

// Arguments lists the arguments that the text has places for.
func (t Text) Arguments() []string {
	var names []string
	for _, p := range t.parts {
		if p.argument != "" && !slices.Contains(names, p.argument) {
			names = append(names, p.argument)
		}
	}
	return names
}

// Argument is the one argument that is the whole text.
func (t Text) Argument() (name string, whole bool) {
	if len(t.parts) != 1 || t.parts[0].argument == "" {
		return "", false
	}
	return t.parts[0].argument, true
}

// Opening is the argument that the text begins with.
func (t Text) Opening() (name string, there bool) {
	if len(t.parts) == 0 || t.parts[0].argument == "" {
		return "", false
	}
	return t.parts[0].argument, true
}

// Missing lists the arguments that the text has places for and args has not.
func (t Text) Missing(args Args) []string {
	return slices.DeleteFunc(t.Arguments(), args.Has)
}

// Fill puts args in their places, each as escape gives it. It fails with apierr.ToolError when one is missing.
func (t Text) Fill(args Args, escape func(string) string) (string, error) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.argument == "" {
			b.WriteString(p.literal)
			continue
		}
		if !args.Has(p.argument) && contextvar.IsName(p.argument) {
			return "", apierr.New(apierr.ToolError, "the tool needs %q of the request; the user's client must send it", p.argument)
		}
		if !args.Has(p.argument) {
			return "", apierr.New(apierr.ToolError, "the call needs the argument %q", p.argument)
		}
		b.WriteString(escape(args.text(p.argument)))
	}
	return b.String(), nil
}

// Plain leaves a text as it is.
func Plain(text string) string { return text }
