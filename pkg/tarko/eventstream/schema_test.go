package eventstream_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agentbus/agentbus/pkg/eventschema"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

const feedback = `{"type":"object","required":["rating"],"properties":{"rating":{"type":"integer","maximum":5},"comment":{"type":"string"}}}`

func event(kind, data string) eventstream.Event {
	return eventstream.Event{ID: "1", Type: kind, Data: json.RawMessage(data)}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	flat, nested := eventstream.NewSchemas(eventstream.Flat), eventstream.NewSchemas(eventstream.Nested)
	err := errors.Join(flat.Add("user_feedback", json.RawMessage(feedback)),
		nested.Add("user_feedback", json.RawMessage(`{"properties":{"data":`+feedback+`}}`)))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, data string
		problems   []string // a part of each
	}{
		{"what fits", `{"rating":5,"comment":"fine"}`, nil},
		{"what is missing", `{}`, []string{"rating"}},
		{"all that is wrong, with its place", `{"rating":6,"comment":7}`, []string{"/rating: ", "/comment: "}},
	}
	for _, tt := range tests {
		for form, schemas := range map[string]*eventstream.Schemas{"flat": flat, "nested": nested} {
			err := schemas.Validate(event("user_feedback", tt.data))
			if len(tt.problems) == 0 {
				if err != nil {
					t.Errorf("%s, %s: %v", tt.name, form, err)
				}
				continue
			}
			invalid, ok := errors.AsType[*eventschema.Invalid](err)
			if !ok || len(invalid.Problems) != len(tt.problems) {
				t.Errorf("%s, %s: got %v", tt.name, form, err)
				continue
			}
			for _, want := range tt.problems {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s, %s: no %q in %v", tt.name, form, want, err)
				}
			}
		}
	}
	if err := flat.Validate(event("other", `{}`)); !errors.Is(err, eventschema.ErrNoSchema) {
		t.Errorf("a type that is not registered: %v", err)
	}
	if err := flat.Registry.Validate("user_feedback", []byte(`{`)); err == nil {
		t.Error("half an event is valid")
	}
	if err := flat.Validate(event("user_feedback", `[]`)); err == nil {
		t.Error("what has no flat form is valid")
	}
}

func TestSchemasOfAFolder(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"common.json":           {Data: []byte(`{"$id":"https://example.org/common.json","$defs":{"rating":{"type":"integer"}}}`)},
		"flat/feedback.json":    {Data: []byte(`{"$id":"https://example.org/flat/feedback.json","properties":{"rating":{"$ref":"../common.json#/$defs/rating"}}}`)},
		"flat/examples/x.json":  {Data: []byte(`{"type":"x"}`)},
		"nested/feedback.json":  {Data: []byte(`{"$id":"https://example.org/nested/feedback.json","required":["data"]}`)},
		"nested/something.text": {Data: []byte(`none`)},
	}
	schemas := eventstream.NewSchemas(eventstream.Flat)
	if err := schemas.Read(files, "flat"); err != nil {
		t.Fatal(err)
	}
	if got := schemas.Types(); !slices.Equal(got, []string{"feedback"}) {
		t.Errorf("it knows %v", got)
	}
	if err := errors.Join(schemas.Validate(event("feedback", `{"rating":1}`)), schemas.Read(files, "flat")); err != nil {
		t.Error(err)
	}
	if schemas.Validate(event("feedback", `{"rating":"good"}`)) == nil {
		t.Error("a reference to another file is not followed")
	}
}

func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"no JSON":                    `{`,
		"no schema":                  `{"type":"objekt"}`,
		"what would have to be read": `{"$ref":"file:///etc/passwd"}`,
		"what would be fetched":      `{"$ref":"https://example.org/schema.json"}`,
	}
	for name, schema := range tests {
		schemas := eventstream.NewSchemas(eventstream.Flat)
		if err := schemas.Add("x", json.RawMessage(schema)); err == nil || !strings.Contains(err.Error(), "x events") {
			t.Errorf("%s: got %v", name, err)
		}
		if len(schemas.Types()) != 0 {
			t.Errorf("%s: it is registered", name)
		}
	}
}

func TestSendValidatesSchemas(t *testing.T) {
	t.Parallel()
	schemas := eventstream.NewSchemas(eventstream.Flat)
	if err := schemas.Add("user_feedback", json.RawMessage(feedback)); err != nil {
		t.Fatal(err)
	}
	p := eventstream.New(eventstream.Options{Schemas: schemas})
	if _, err := p.Emit("user_feedback", map[string]any{"rating": "good"}); err == nil {
		t.Error("a wrong event is sent")
	}
	if _, err := p.Emit("user_feedback", map[string]any{"rating": 4}); err != nil {
		t.Error(err)
	}
	if _, err := p.Emit("unheard_of", nil); err != nil {
		t.Errorf("a type that is not registered: %v", err)
	}
	if n := p.Stats().Sent; n != 2 {
		t.Errorf("%d events are sent", n)
	}
}
