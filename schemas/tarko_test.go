package schemas_test

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"github.com/go-json-experiment/json"
)

// vocabulary is one of Tarko's, with the folder of its schemas.
type vocabulary struct {
	dir      string
	words    tarko.Vocabulary
	form     eventstream.Form
	payloads map[tarko.Type]reflect.Type
}

func vocabularies() []vocabulary {
	shared := payloads(
		tarko.UserMessage{}, tarko.AssistantMessage{}, tarko.AssistantThinkingMessage{}, tarko.AssistantStreamingThinkingMessage{},
		tarko.AssistantStreamingToolCall{}, tarko.AgentRunStart{}, tarko.AgentRunEnd{}, tarko.PlanStart{}, tarko.PlanUpdate{},
		tarko.PlanFinish{}, tarko.System{}, tarko.FinalAnswer{}, tarko.FinalAnswerStreaming{}, tarko.EnvironmentInput{},
		tarko.ContextCompressed{}, tarko.ActionRequired{}, tarko.ActionResult{},
	)
	flat := payloads(tarko.AssistantStreamingMessage{}, tarko.ToolCall{}, tarko.ToolResult{})
	nested := payloads(
		tarko.FunctionCall{}, tarko.FunctionResult{}, tarko.AssistantMessageStart{}, tarko.AssistantMessageDelta{},
		tarko.ToolExecutionStart{}, tarko.ToolExecutionDelta{}, tarko.SessionStart{}, tarko.SessionEnd{}, tarko.Error{},
	)
	maps.Copy(flat, shared)
	maps.Copy(nested, shared)
	return []vocabulary{
		{"tarko/flat", tarko.Flat, eventstream.Flat, flat},
		{"tarko/nested", tarko.Nested, eventstream.Nested, nested},
	}
}

func payloads(all ...tarko.Payload) map[tarko.Type]reflect.Type {
	types := map[tarko.Type]reflect.Type{}
	for _, p := range all {
		types[p.Type()] = reflect.TypeOf(p)
	}
	return types
}

func TestEveryTypeOfTarkoHasAPayloadASchemaAndAnExample(t *testing.T) {
	t.Parallel()
	for _, v := range vocabularies() {
		want := v.words.Types()
		if got := slices.Sorted(maps.Keys(v.payloads)); !slices.Equal(got, want) {
			t.Errorf("%s: the payloads are of %v, the types are %v", v.dir, got, want)
		}
		for _, dir := range []string{v.dir, v.dir + "/examples"} {
			var described []tarko.Type
			for _, file := range files(t, dir) {
				if path.Dir(file) == dir {
					described = append(described, tarko.Type(subject(file)))
				}
			}
			slices.Sort(described)
			if got := slices.Compact(described); !slices.Equal(got, want) {
				t.Errorf("schemas/%s describes %v, the types are %v", dir, got, want)
			}
		}
	}
}

func TestPayloadsOfTarkoAgreeWithTheirSchemas(t *testing.T) {
	t.Parallel()
	c := comparison{schemaDocuments(t), goConstants(t, "tarko")}
	for _, v := range vocabularies() {
		for kind, typ := range v.payloads {
			file := v.dir + "/" + string(kind) + ".json"
			root := node{file, c.docs[file]}
			envelope := []string{"id", "type", "timestamp"}
			said, _ := c.docs.shape(t, root).properties["type"].value.(map[string]any)
			if said["const"] != string(kind) {
				t.Errorf("%s: the schema is for type %v", file, said["const"])
			}
			if v.words == tarko.Nested {
				root, envelope = c.docs.shape(t, root).properties["data"], nil
				if typ.Name() == "UserMessage" || typ.Name() == "AssistantMessage" {
					envelope = []string{"role"} // the schema requires it here, and Go's type has it for both forms
				}
			}
			c.compare(t, file, typ, root, envelope...)
		}
	}
}

func TestEveryExampleOfTarkoFitsItsSchemaAndItsPayload(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	for _, v := range vocabularies() {
		for _, file := range files(t, v.dir+"/examples") {
			schema, err := c.Compile(address(v.dir + "/" + subject(file) + ".json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(document(t, file)); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			e, err := v.form.Decode(read(t, file))
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			payload := newOf(v.payloads[tarko.Type(e.Type)])
			if err := json.Unmarshal(e.Data, payload, json.RejectUnknownMembers(true)); err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			again, err := json.Marshal(payload)
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			sameJSON(t, file, again, e.Data)
		}
	}
}
