package template_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/tool/internal/template"
	"github.com/go-json-experiment/json/jsontext"
)

func secrets(name string) (string, error) {
	if name == "TOKEN" {
		return "s3cr3t{a}", nil
	}
	return "", errors.New("there is no secret " + name)
}

func TestFill(t *testing.T) {
	t.Parallel()
	args := template.Args{
		"a": json.RawMessage(`"x/{b}${TOKEN}"`), "n": json.RawMessage(`1.50`), "o": json.RawMessage(`{"k":[1]}`),
		"empty": json.RawMessage(`""`), "null": json.RawMessage(`null`), "context.user.id": json.RawMessage(`"of the model"`),
		"context.gone": json.RawMessage(`"of the model"`),
	}.With([]byte(`{"user":{"id":"u{a}","tags":["x"]}}`), []string{"context.user.id", "context.user.tags", "context.gone"})
	tests := []struct{ name, text, want, wrong string }{
		{"a text without places", "plain $5 text", "plain $5 text", ""},
		{"what an argument says is not read", "<{a}>", "<x/{b}${TOKEN}>", ""},
		{"a number is as the model wrote it", "{n}", "1.50", ""},
		{"an object is JSON", "{o}", `{"k":[1]}`, ""},
		{"an empty text is one", "[{empty}]", "[]", ""},
		{"null is missing", "{null}", "", `needs the argument "null"`},
		{"a value of the context, which no argument replaces", "{context.user.id}", "u{a}", ""},
		{"a list of the context", "{context.user.tags}", `["x"]`, ""},
		{"a value that the context does not have", "{context.gone}", "", `"context.gone" of the request`},
		{"a missing one is named", "{gone}", "", `needs the argument "gone"`},
		{"what a secret says is not read", "Bearer ${TOKEN}", "Bearer s3cr3t{a}", ""},
		{"an unknown secret is named", "${OTHER}", "", "there is no secret OTHER"},
		{"braces", "{{a}} }}{{", "{a} }{", ""},
		{"a place without an end", "x{a", "", "is not the place"},
		{"a place with a path", "{a.b}", "", "is not the place"},
		{"a brace that ends nothing", "a}", "", "ends nothing"},
		{"a secret without an end", "${TOKEN", "", "has no end"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			text, err := template.Parse(test.text, secrets)
			got := ""
			if err == nil {
				got, err = text.Fill(args, template.Plain)
			}
			if test.wrong == "" && (err != nil || got != test.want) {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
			if test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)) {
				t.Errorf("got %v, want %q", err, test.wrong)
			}
		})
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	text, err := template.Parse("{a}-{b}-{a}", secrets)
	if err != nil {
		t.Fatal(err)
	}
	if got := text.Arguments(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v", got)
	}
	if got := text.Missing(template.Args{"b": json.RawMessage(`1`)}); !slices.Equal(got, []string{"a"}) {
		t.Errorf("missing: got %v", got)
	}
	if _, whole := text.Argument(); whole {
		t.Error("a text of several parts is not an argument")
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "{a}", "{{", "}}", "${TOKEN}", "$", "{", "}", "a{b}c${TOKEN}{{d}}", "${", "{\xff}"} {
		f.Add(seed, "v")
	}
	f.Fuzz(func(t *testing.T, source, value string) {
		text, err := template.Parse(source, func(string) (string, error) { return "", nil })
		if err != nil {
			return
		}
		args := template.Args{}
		quoted, err := jsontext.AppendQuote(nil, value)
		if err != nil {
			return // no argument that JSON can bring
		}
		for _, name := range text.Arguments() {
			args[name] = quoted
		}
		whole, err := text.Fill(args, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		filled, err := text.Fill(args, template.Plain)
		if err != nil {
			t.Fatal(err)
		}
		if len(text.Arguments()) == 0 && filled != whole {
			t.Errorf("%q: got %q, want %q", source, filled, whole)
		}
		if name, ok := text.Argument(); ok && filled != value {
			t.Errorf("%q with %s=%q: got %q", source, name, value, filled)
		}
	})
}
