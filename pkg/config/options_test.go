package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
)

func TestOptionsOfAnAgent(t *testing.T) {
	t.Parallel()
	c, err := config.Parse([]byte(`
agents:
  a:
    backend: openai
    model: m
    effort: high
    options:
      temperature: 0
      stop: [END]
      toolChoice: clock
      responseFormat: {type: json_schema, name: x, strict: true, schema: {type: object}}
`), known)
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.Agents["a"].Options.Event()
	if err != nil {
		t.Fatal(err)
	}
	if o.Temperature == nil || *o.Temperature != 0 || o.TopP != nil {
		t.Errorf("got temperature %v and topP %v, want 0 and none", o.Temperature, o.TopP)
	}
	if o.ToolChoice == nil || *o.ToolChoice != (event.ToolChoice{Mode: event.ChooseTool, Name: "clock"}) {
		t.Errorf("got tool choice %+v", o.ToolChoice)
	}
	if f := o.ResponseFormat; f == nil || f.Type != event.FormatSchema || string(f.Schema) != `{"type":"object"}` || !f.Strict {
		t.Errorf("got response format %+v", o.ResponseFormat)
	}
}

func TestMistakesInTheSettingsOfAModel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ agent, want string }{
		{"backend: openai, model: m, effort: much", "agents.a.effort"},
		{"backend: openai, model: m, options: {temperature: 3}", "must be a number from 0 to 2"},
		{"backend: openai, model: m, options: {topP: -1}", "must be a number from 0 to 1"},
		{"backend: openai, model: m, options: {responseFormat: {type: json_schema}}", "write a JSON Schema"},
		{"backend: openai, model: m, options: {responseFormat: {type: json, schema: {type: object}}}", "must be json_schema"},
		{"backend: anthropic, model: m, options: {responseFormat: {type: json}}", "json is not a format of Anthropic's API"},
		{"backend: openai-responses, model: m, options: {stop: [END]}", "the Responses API has no such option"},
		{"backend: openai-responses", "has no model"},
		{"backend: scripted, effort: high", "backend scripted has no such setting"},
		{"backend: scripted, options: {temperature: 1}", "backend scripted has no such setting"},
		{"backend: openai, model: m, returnThinking: sometimes", "agents.a.returnThinking"},
	} {
		_, err := config.Parse([]byte("agents: {a: {"+tt.agent+"}}"), known)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want a mistake with %q", tt.agent, err, tt.want)
		}
	}
}

func TestALimitOfCostNeedsAPrice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ agent, models, want string }{
		{"model: gpt-4.1, limits: {cost: 1}", "", ""},
		{"model: new-model, limits: {cost: 1}", "", `the price of model "new-model" is not known`},
		{"model: new-model", "", ""},
		{"model: new-model, limits: {cost: 1}", "models: {new-model: {price: {input: 0, output: 0}}}", ""},
		{"model: gpt-4.1, fallback: [other], limits: {cost: 1}", "", `the price of model "other"`},
		{"model: gpt-4.1, models: [other], limits: {cost: 1}", "", `the price of model "other"`},
		{`model: gpt-4.1, models: ["*"], limits: {cost: 1}`, "", ""},
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte("agents: {a: {backend: openai, "+tt.agent+"}}\n"+tt.models+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(path, config.Default(func(string) string { return "" }), known)
		if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.agent, err, tt.want)
		}
	}
}
