package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
)

var known = config.Known{
	Backends: []string{"scripted", "openai", "anthropic", "claude-code", "codex", "opencode", "cli", "acp", "http", "agui", "ai-sdk", "langgraph", "a2a", "remote"},
	Tools:    []string{"clock", "calculator", "http_get", "echo"},
}

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := config.Parse([]byte(`
agents:
  helper:
    description: answers questions
    backend: openai
    model: gpt-4.1
    system: |
      You are brief.
    tools: [clock, http_get]
    clientTools:
      - name: locate
        description: where the user is
        schema: {type: object, properties: {precision: {type: integer, minimum: 1}}, required: [precision]}
    askUser: true
    planning: true
    finalAnswer: true
    contextWindow: 32000
    compressAt: 0.5
    thinking: 1024
    limits: {turns: 5, tokens: 100000, time: 2m30s}
    onDisconnect: abort
    onBusy: queue
    queue: 3
    onCrash: error
    onUnknown: ask
    actionTTL: 1h
    baseURL: http://127.0.0.1:11434/v1
    apiKeyEnv: LOCAL_KEY
models:
  gpt-4.1: {price: {input: 2, output: 8.5}, contextWindow: 1000}
tools:
  http_get: {approval: always, effect: none, timeout: 5s, maxOutput: 65536, allow: [10.1.0.0/16, intranet.example.com]}
gateway:
  cors: ["https://app.example.com"]
  rateLimit: {requests: 10, per: 1s, burst: 20}
  heartbeat: 15s
`), known)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		Agents: map[string]config.Agent{"helper": {
			Description: "answers questions", Backend: "openai", Model: "gpt-4.1", System: "You are brief.\n",
			Tools: []string{"clock", "http_get"},
			ClientTools: []config.ClientTool{{
				Name: "locate", Description: "where the user is",
				Schema: map[string]any{
					"type":       "object",
					"properties": map[string]any{"precision": map[string]any{"type": "integer", "minimum": uint64(1)}},
					"required":   []any{"precision"},
				},
			}},
			AskUser: true, Planning: true, FinalAnswer: true, ContextWindow: 32000, CompressAt: 0.5, Thinking: 1024,
			Limits:       config.Limits{Turns: 5, Tokens: 100000, Time: config.Duration(150 * time.Second)},
			OnDisconnect: "abort", OnBusy: "queue", Queue: 3, OnCrash: "error", OnUnknown: "ask", ActionTTL: config.Duration(time.Hour),
			BaseURL: "http://127.0.0.1:11434/v1", APIKeyEnv: "LOCAL_KEY",
		}},
		Models: map[string]config.Model{"gpt-4.1": {Price: config.Price{Input: 2, Output: 8.5}, ContextWindow: 1000}},
		Tools: map[string]config.Tool{"http_get": {
			Approval: "always", Effect: "none", Timeout: config.Duration(5 * time.Second), MaxOutput: 65536,
			Allow: []string{"10.1.0.0/16", "intranet.example.com"},
		}},
		Gateway: config.Gateway{
			CORS:      []string{"https://app.example.com"},
			RateLimit: config.Rate{Requests: 10, Per: config.Duration(time.Second), Burst: 20},
			Heartbeat: config.Duration(15 * time.Second),
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestAnAgentCallsAgentsThatThereAre(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	base := config.Config{Agents: map[string]config.Agent{"demo": {Backend: "scripted"}}}
	for called, want := range map[string]string{"demo": "", "dmo": `unknown agent "dmo"; did you mean "demo"?`} {
		text := "agents: {lead: {backend: scripted, agents: [" + called + "], approval: {agent__" + called + ": always}}}"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(file, base, known)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", called, err, want)
		}
	}
}

func TestAFileAddsTools(t *testing.T) {
	t.Parallel()
	got, err := config.Parse([]byte(`
agents:
  a: {backend: scripted, tools: [mine, list_files, clock], approval: {mine: never, "*": always}}
tools:
  read_file: {approval: always}
  mine:
    description: finds people
    schema: {type: object, properties: {name: {type: string}}}
    http: {method: POST, url: "https://a.example/people/{name}", body: {deep: [true, "{name}"]}, result: /data}
files: {root: /srv, readOnly: true}
`), known)
	if err != nil {
		t.Fatal(err)
	}
	if body := got.Tools["mine"].HTTP.Body; !reflect.DeepEqual(body, map[string]any{"deep": []any{true, "{name}"}}) {
		t.Errorf("got the body %v", body)
	}
	a := got.Agents["a"].Approval
	if a.Of("mine", "always") != "never" || a.Of("clock", "never") != "always" || config.Approvals(nil).Of("x", "never") != "never" {
		t.Errorf("got the approvals %v", a)
	}
}

func TestEmptyFileIsEmptyConfiguration(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"", "\n", "# only a comment\n", "---\n", "{}", "\ufeff", "agents:\ngateway:\n"} {
		got, err := config.Parse([]byte(file), known)
		if err != nil || !reflect.DeepEqual(got, config.Config{}) {
			t.Errorf("%q: got %+v, %v; want an empty Config", file, got, err)
		}
	}
}

func TestParseRefusesWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	_, err := config.Parse(make([]byte, config.MaxSize+1), known)
	if err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
}

// The decoder has no case for a kind that Config does not have; a new field of one must come with the case.
func TestEveryKindIsDecoded(t *testing.T) {
	t.Parallel()
	var visit func(typ reflect.Type, path string)
	visit = func(typ reflect.Type, path string) {
		switch typ.Kind() {
		case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64, reflect.Interface:
		case reflect.Slice, reflect.Map, reflect.Pointer:
			visit(typ.Elem(), path+"[]")
		case reflect.Struct:
			for f := range typ.Fields() {
				if tag := f.Tag.Get("yaml"); tag == "" || strings.Contains(tag, ",") {
					t.Errorf("%s.%s has the tag %q; want a plain name", path, f.Name, tag)
				}
				visit(f.Type, path+"."+f.Name)
			}
		default:
			t.Errorf("%s is a %s, which the decoder does not know", path, typ.Kind())
		}
	}
	visit(reflect.TypeFor[config.Config](), "Config")
}

func TestTheExampleIsAValidFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "deploy", "config.example.yaml")
	got, err := config.Load(path, config.Default(func(string) string { return "" }), known)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Agents) == 0 || len(got.Models) == 0 || len(got.Tools) == 0 {
		t.Errorf("the example shows only %d agents, %d models, %d tools", len(got.Agents), len(got.Models), len(got.Tools))
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range fieldNames(reflect.TypeFor[config.Config]()) {
		if !strings.Contains(string(text), name+":") {
			t.Errorf("the example does not show the field %q", name)
		}
	}
}

func fieldNames(typ reflect.Type) []string {
	switch typ.Kind() {
	case reflect.Slice, reflect.Map:
		return fieldNames(typ.Elem())
	case reflect.Struct:
		var names []string
		for f := range typ.Fields() {
			names = append(names, f.Tag.Get("yaml"))
			names = append(names, fieldNames(f.Type)...)
		}
		return names
	default:
		return nil
	}
}

func FuzzParse(f *testing.F) {
	example, err := os.ReadFile(filepath.Join("..", "..", "deploy", "config.example.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(example)
	for _, seed := range []string{"", "agents: {a: {backend: scripted}}", "a: *b", "a: &a [*a]", "? [x]: y", "- 1", "gateway: {maxBody: 0x7fffffffffffffff}", "agents:\n  1: 2", "<<: {}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := config.Parse(data, known)
		if err == nil {
			return
		}
		mistakes, ok := errors.AsType[config.Mistakes](err)
		if !ok || len(mistakes) == 0 {
			t.Fatalf("got %v, want Mistakes", err)
		}
		for _, m := range mistakes {
			if m.Line < 1 || m.Column < 0 || m.What == "" {
				t.Errorf("a mistake without a place: %+v", m)
			}
		}
	})
}
