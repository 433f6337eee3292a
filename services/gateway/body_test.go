package gateway_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/schemas"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

var update = flag.Bool("update", false, "write the request bodies for other validators")

// requestBodies are bodies of requests, by name.
type requestBodies struct {
	Accepted map[string]json.RawMessage `json:"accepted"`
	Refused  map[string]json.RawMessage `json:"refused"`
}

// newRequestBodies returns bodies with which the server and the schemas must agree.
func newRequestBodies() requestBodies {
	with := func(members string) string { return `{"messages":[{"role":"user","content":"hi"}],` + members + `}` }
	message := func(members string) string { return `{"messages":[{"role":"user",` + members + `}]}` }
	part := func(members string) string { return message(`"content":[{` + members + `}]`) }
	result := func(members string) string {
		return `{"messages":[],"threadId":"thr_1","context":{"actionResults":[{` + members + `}]}}`
	}
	many := func(n int, entry string) string { return `[` + strings.Repeat(entry+`,`, n-1) + entry + `]` }
	accepted := map[string]string{
		"a string":                 message(`"content":"hi"`),
		"a message's own id":       message(`"content":"hi","id":"m1"`),
		"a text":                   part(`"type":"text","text":"hi"`),
		"an image by url":          part(`"type":"image","url":"https://example.org/a.png"`),
		"a file as data":           part(`"type":"file","data":"aGk=","mediaType":"text/plain","name":"a.txt"`),
		"a part's unknown member":  part(`"type":"text","text":"hi","cache":true`),
		"a hundred messages":       `{"messages":` + many(100, `{"role":"user","content":"x"}`) + `}`,
		"a hundred parts":          message(`"content":` + many(100, `{"type":"text","text":"x"}`)),
		"a thread":                 with(`"threadId":"thr_1"`),
		"an action result":         result(`"actionId":"act_1","status":"success","result":[1,null]`),
		"a denied action":          result(`"actionId":"act_1","status":"denied","error":"no"`),
		"an empty context":         with(`"context":{}`),
		"no action results":        with(`"context":{"actionResults":[]}`),
		"a context's own members":  with(`"context":{"locale":"de","deep":{"a":[1]}}`),
		"a tool":                   with(`"tools":[{"name":"look_up"}]`),
		"a tool with a schema":     with(`"tools":[{"name":"look_up","description":"d","schema":{"type":"object"}}]`),
		"an empty list of tools":   with(`"tools":[]`),
		"empty options":            with(`"options":{}`),
		"all numbers":              with(`"options":{"temperature":2,"topP":0,"maxTokens":1,"stop":["a","b","c","d"]}`),
		"no limit of tokens":       with(`"options":{"maxTokens":0}`),
		"a tool choice":            with(`"options":{"toolChoice":{"mode":"required"}}`),
		"the model's own choice":   with(`"options":{"toolChoice":{"mode":"auto"}}`),
		"the choice of no tool":    with(`"options":{"toolChoice":{"mode":"none"}}`),
		"the format text":          with(`"options":{"responseFormat":{"type":"text"}}`),
		"the choice of a tool":     with(`"options":{"toolChoice":{"mode":"tool","name":"calculator"}}`),
		"a format":                 with(`"options":{"responseFormat":{"type":"json"}}`),
		"a format with a schema":   with(`"options":{"responseFormat":{"type":"json_schema","name":"a","schema":{},"strict":true}}`),
		"a format's name, unused":  with(`"options":{"responseFormat":{"type":"text","name":"a"}}`),
		"a stop of 256 characters": with(`"options":{"stop":["` + strings.Repeat("x", 256) + `"]}`),
	}
	refused := map[string]string{
		"an array":                        `[]`,
		"an empty object":                 `{}`,
		"an unknown member":               with(`"stream":true`),
		"a member in another case":        with(`"threadid":"thr_1"`),
		"no message":                      `{"messages":[]}`,
		"no message and no result":        `{"messages":[],"threadId":"thr_1","context":{"actionResults":[]}}`,
		"null messages":                   `{"messages":null}`,
		"messages that are an object":     `{"messages":{}}`,
		"101 messages":                    `{"messages":` + many(101, `{"role":"user","content":"x"}`) + `}`,
		"a message that is a string":      `{"messages":["hi"]}`,
		"a message's unknown member":      message(`"content":"hi","name":"x"`),
		"a message's long id":             message(`"content":"hi","id":"` + strings.Repeat("x", 129) + `"`),
		"the role system":                 `{"messages":[{"role":"system","content":"obey"}]}`,
		"no role":                         `{"messages":[{"content":"hi"}]}`,
		"no content":                      `{"messages":[{"role":"user"}]}`,
		"empty content":                   message(`"content":""`),
		"content that is a number":        message(`"content":1`),
		"no part":                         message(`"content":[]`),
		"101 parts":                       message(`"content":` + many(101, `{"type":"text","text":"x"}`)),
		"a part without a type":           part(`"text":"hi"`),
		"an unknown part":                 part(`"type":"video","url":"https://example.org"`),
		"a text without a text":           part(`"type":"text"`),
		"an empty text":                   part(`"type":"text","text":""`),
		"a text with a url":               part(`"type":"text","text":"hi","url":"https://example.org"`),
		"an image of nothing":             part(`"type":"image"`),
		"an image of two":                 part(`"type":"image","url":"https://example.org","data":"aGk=","mediaType":"image/png"`),
		"a reference":                     part(`"type":"image","ref":{"object":"a","size":1,"sha256":"` + strings.Repeat("0", 64) + `"}`),
		"a thread with a dot":             with(`"threadId":"a.b"`),
		"an empty thread":                 with(`"threadId":""`),
		"a context that is a string":      with(`"context":"x"`),
		"a model that is a number":        with(`"context":{"model":5}`),
		"a result without a thread":       `{"messages":[],"context":{"actionResults":[{"actionId":"a","status":"success"}]}}`,
		"a result without an action":      result(`"status":"success"`),
		"a result without a status":       result(`"actionId":"a"`),
		"a result's unknown status":       result(`"actionId":"a","status":"approved"`),
		"a result's unknown member":       result(`"actionId":"a","status":"success","note":"x"`),
		"101 results":                     `{"messages":[],"threadId":"t","context":{"actionResults":` + many(101, `{"actionId":"a","status":"denied"}`) + `}}`,
		"tools that are an object":        with(`"tools":{}`),
		"129 tools":                       with(`"tools":` + many(129, `{"name":"a"}`)),
		"a tool without a name":           with(`"tools":[{}]`),
		"a tool's bad name":               with(`"tools":[{"name":"a b"}]`),
		"a tool's unknown member":         with(`"tools":[{"name":"a","parameters":{}}]`),
		"a tool's schema that is a list":  with(`"tools":[{"name":"a","schema":[]}]`),
		"an unknown option":               with(`"options":{"top_p":1}`),
		"a high temperature":              with(`"options":{"temperature":2.1}`),
		"a negative temperature":          with(`"options":{"temperature":-0.1}`),
		"a high topP":                     with(`"options":{"topP":1.1}`),
		"negative tokens":                 with(`"options":{"maxTokens":-1}`),
		"half a token":                    with(`"options":{"maxTokens":1.5}`),
		"five stops":                      with(`"options":{"stop":["a","b","c","d","e"]}`),
		"an empty stop":                   with(`"options":{"stop":[""]}`),
		"a stop of 257 characters":        with(`"options":{"stop":["` + strings.Repeat("x", 257) + `"]}`),
		"an unknown tool choice":          with(`"options":{"toolChoice":{"mode":"any"}}`),
		"a tool choice's unknown member":  with(`"options":{"toolChoice":{"mode":"auto","tool":"a"}}`),
		"a tool choice without a name":    with(`"options":{"toolChoice":{"mode":"tool"}}`),
		"a tool choice with a name":       with(`"options":{"toolChoice":{"mode":"auto","name":"a"}}`),
		"an unknown format":               with(`"options":{"responseFormat":{"type":"xml"}}`),
		"a format's unknown member":       with(`"options":{"responseFormat":{"type":"json","x":1}}`),
		"a format without its schema":     with(`"options":{"responseFormat":{"type":"json_schema"}}`),
		"a format with a schema too many": with(`"options":{"responseFormat":{"type":"json","schema":{}}}`),
		"a format's bad name":             with(`"options":{"responseFormat":{"type":"json","name":"a b"}}`),
	}
	return requestBodies{raw(accepted), raw(refused)}
}

func raw(texts map[string]string) map[string]json.RawMessage {
	values := make(map[string]json.RawMessage, len(texts))
	for name, text := range texts {
		values[name] = json.RawMessage(text)
	}
	return values
}

// requestFile has the bodies for other validators, such as ajv (services/e2e/clients/schemas.test.mjs).
const requestFile = "../e2e/clients/testdata/requests.json"

func TestTheFileOfRequestBodiesIsCurrent(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "\t")
	if err := encoder.Encode(newRequestBodies()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(requestFile)
	if bytes.Equal(got, text.Bytes()) {
		return
	}
	if !*update {
		t.Fatalf("%s does not have the bodies of this test (%v); run it with -update", requestFile, err)
	}
	if err := os.WriteFile(requestFile, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSchemasOfARequestAgreeWithTheServer sends each body to the server, and validates it against request.json and against
// AgentRequest of openapi.yaml.
func TestSchemasOfARequestAgreeWithTheServer(t *testing.T) {
	t.Parallel()
	bodies := newRequestBodies()
	for source, check := range requestChecks(t, start(t)) {
		for name, body := range bodies.Accepted {
			if err := check(string(body)); err != nil {
				t.Errorf("%s refuses %s, %.200s: %v", source, name, body, err)
			}
		}
		for name, body := range bodies.Refused {
			if check(string(body)) == nil {
				t.Errorf("%s accepts %s: %.200s", source, name, body)
			}
		}
	}
}

// requestChecks returns what checks the body of a request, by the name of the source. A check returns an error for a body that it
// refuses.
func requestChecks(t *testing.T, b *bench) map[string]func(body string) error {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(schemas.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	schema := requestSchema(t)
	return map[string]func(string) error{
		"the server": func(body string) error {
			a := b.post("/v1/agents/demo/requests", body)
			if a.status == http.StatusAccepted {
				return nil
			}
			switch code := a.failure(t).Code; code {
			case apierr.ThreadNotFound, apierr.InvalidActionID: // the form of the body is right
				return nil
			case apierr.InvalidMessageFormat:
			default:
				t.Errorf("the server refuses %.200s with %s", body, code)
			}
			return errors.New(a.body)
		},
		"request.json": func(body string) error {
			parsed, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
			if err != nil {
				return err
			}
			return schema.Validate(parsed)
		},
		"openapi.yaml": func(body string) error {
			var parsed any
			if err := json.Unmarshal([]byte(body), &parsed); err != nil {
				return err
			}
			return doc.Components.Schemas["AgentRequest"].Value.VisitJSON(parsed)
		},
	}
}

// requestSchema compiles request.json.
func requestSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const base = "https://github.com/agentbus/agentbus/schemas/"
	c := jsonschema.NewCompiler()
	for _, file := range []string{"common.json", "request.json"} {
		text, err := schemas.FS.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(base+file, parsed); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile(base + "request.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}
