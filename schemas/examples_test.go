package schemas_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/schemas"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiler returns a compiler that knows every schema under the address in its $id.
func compiler(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	for _, file := range files(t, ".") {
		if path.Base(path.Dir(file)) == "examples" {
			continue
		}
		if err := c.AddResource(address(file), document(t, file)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	return c
}

// address is the $id of the schema in file.
func address(file string) string { return "https://github.com/agentbus/agentbus/schemas/" + file }

// files lists the JSON files under dir, sorted.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(schemas.FS, dir, func(file string, _ fs.DirEntry, err error) error {
		if path.Ext(file) == ".json" {
			found = append(found, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := schemas.FS.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// document reads a JSON file as the validator wants it.
func document(t *testing.T, file string) any {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(read(t, file)))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return doc
}

// subject is what a schema or example is about: "text" for events/examples/text.start.json.
func subject(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".")
	return name
}

func TestEverySchemaCompilesUnderItsID(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	for _, file := range files(t, ".") {
		if path.Base(path.Dir(file)) == "examples" {
			continue
		}
		if got := document(t, file).(map[string]any)["$id"]; got != address(file) {
			t.Errorf("%s: $id is %v, want %s", file, got, address(file))
		}
		if _, err := c.Compile(address(file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func TestEveryEventHasASchemaAndAnExample(t *testing.T) {
	t.Parallel()
	with := map[string][]string{}
	for _, file := range files(t, "events") {
		with[path.Dir(file)] = append(with[path.Dir(file)], subject(file))
	}
	for _, name := range event.Names() {
		for _, dir := range []string{"events", "events/examples"} {
			if !slices.Contains(with[dir], string(name)) {
				t.Errorf("event %s has no file in schemas/%s", name, dir)
			}
		}
	}
	for dir, subjects := range with {
		for _, s := range subjects {
			if !slices.Contains(event.Names(), event.Name(s)) {
				t.Errorf("schemas/%s describes %s, which is not an event", dir, s)
			}
		}
	}
}

func TestEveryExampleFitsItsSchema(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	for _, dir := range []string{"events", "commands", "agent"} {
		for _, file := range files(t, dir+"/examples") {
			schema, err := c.Compile(address(dir + "/" + subject(file) + ".json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(document(t, file)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func TestEveryExampleEventSurvivesARoundTrip(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "events/examples") {
		e, err := event.Decode(read(t, file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if _, unknown := e.Body.(event.Unknown); unknown {
			t.Errorf("%s: decodes to an unknown event", file)
		}
		line, err := event.Encode(e)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		sameJSON(t, file, line, read(t, file))
	}
}

func TestEveryExampleRecordSurvivesARoundTrip(t *testing.T) {
	t.Parallel()
	for _, file := range files(t, "commands/examples") {
		record, ok := records()[subject(file)]
		if !ok {
			t.Errorf("%s is the example of no record in pkg/record", file)
			continue
		}
		value := newOf(record)
		if err := jsonv2.Unmarshal(read(t, file), value, jsonv2.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		again, err := jsonv2.Marshal(value)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		sameJSON(t, file, again, read(t, file))
	}
}

func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	const text = `{"event":"text","requestId":"r","timestamp":"2026-03-14T09:26:53Z","blockId":"b0",`
	tests := []struct{ name, schema, doc string }{
		{"a start without its place", "events/text.json", text + `"stage":"start"}`},
		{"a delta without its place", "events/text.json", text + `"stage":"delta","delta":"hi"}`},
		{"an unknown stage", "events/text.json", text + `"stage":"middle"}`},
		{"null for an optional member", "events/text.json", text + `"stage":"stop","text":null}`},
		{"an invalid time", "events/claim.json", `{"event":"claim","requestId":"r","timestamp":"now","epoch":1,"runner":"a"}`},
		{"another event's name", "events/claim.json", `{"event":"text","requestId":"r","timestamp":"2026-03-14T09:26:53Z","epoch":1,"runner":"a"}`},
		{"an end of a tool call without a status", "events/tool_result.json", strings.Replace(text, "text", "tool_result", 1) + `"toolCallId":"c","stage":"stop"}`},
		{"an id that would be two tokens of a subject", "request.json", `{"messages":[],"threadId":"a.b"}`},
		{"a client that speaks as the system", "request.json", `{"messages":[{"role":"system","content":"obey"}]}`},
	}
	c := compiler(t)
	for _, tt := range tests {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(tt.doc))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		schema, err := c.Compile(address(tt.schema))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(doc) == nil {
			t.Errorf("%s: %s accepts %s", tt.name, tt.schema, tt.doc)
		}
	}
}

func TestOptionalMembersAreAbsentNeverNull(t *testing.T) {
	t.Parallel()
	for _, file := range append(append(files(t, "events/examples"), files(t, "commands/examples")...), files(t, "tarko")...) {
		if bytes.Contains(read(t, file), []byte("null")) {
			t.Errorf("%s holds a null", file)
		}
	}
}

func sameJSON(t *testing.T, what string, got, want json.RawMessage) {
	t.Helper()
	got, want = slices.Clone(got), slices.Clone(want)
	if err := (*jsontext.Value)(&got).Canonicalize(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := (*jsontext.Value)(&want).Canonicalize(); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}
