package schemas_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestUnionHasEveryEvent(t *testing.T) {
	t.Parallel()
	docs := schemaDocuments(t)
	union := docs.shape(t, node{"event.json", docs["event.json"]})
	var refs, want []string
	for _, choice := range union.oneOf {
		refs = append(refs, choice.value.(map[string]any)["$ref"].(string))
	}
	var names []any
	for _, name := range event.Names() {
		want = append(want, "events/"+string(name)+".json")
		names = append(names, string(name))
	}
	if !slices.Equal(refs, want) {
		t.Errorf("event.json is one of %v, want %v", refs, want)
	}
	if got := docs.shape(t, union.properties["event"]).enum; !slices.Equal(got, names) {
		t.Errorf("event.json names %v, want %v", got, names)
	}
}

func TestEveryExampleOfAnEventFitsTheUnion(t *testing.T) {
	t.Parallel()
	union, err := compiler(t).Compile(address("event.json"))
	if err != nil {
		t.Fatal(err)
	}
	component := openAPI(t).Components.Schemas["Event"].Value
	for _, file := range files(t, "events/examples") {
		if err := union.Validate(document(t, file)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if name := event.Name(subject(file)); name.IsInternal() && name != event.NameToolOutput {
			continue
		}
		var value any
		if err := json.Unmarshal(read(t, file), &value); err != nil {
			t.Fatal(err)
		}
		if err := component.VisitJSON(value); err != nil {
			t.Errorf("%s: openapi.yaml: %v", file, err)
		}
	}
}

func TestUnionRefuses(t *testing.T) {
	t.Parallel()
	const envelope = `"requestId":"r","timestamp":"2026-03-14T09:26:53Z"`
	union, err := compiler(t).Compile(address("event.json"))
	if err != nil {
		t.Fatal(err)
	}
	component := openAPI(t).Components.Schemas["Event"].Value
	for _, text := range []string{
		`{` + envelope + `}`,
		`{"event":"shout",` + envelope + `}`,
		`{"event":"claim",` + envelope + `,"epoch":1}`,
		`{"event":"text",` + envelope + `,"blockId":"b","stage":"middle"}`,
		`{"event":"subagent",` + envelope + `,"toolCallId":"c","agentId":"a","inner":{"event":"claim",` + envelope + `}}`,
	} {
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if union.Validate(doc) == nil {
			t.Errorf("event.json accepts %s", text)
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if component.VisitJSON(value) == nil {
			t.Errorf("openapi.yaml accepts %s", text)
		}
	}
}
