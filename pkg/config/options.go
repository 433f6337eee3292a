package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
)

// The backends that call the API of a model.
const (
	BackendOpenAI    = "openai"
	BackendResponses = "openai-responses"
	BackendAnthropic = "anthropic"
)

// CallsModel reports whether the agent's backend calls the API of a model: then it takes the options and the settings of the
// connection.
func (a Agent) CallsModel() bool {
	return a.Backend == BackendOpenAI || a.Backend == BackendResponses || a.Backend == BackendAnthropic
}

// ModelOptions are options of the model. A request's own have priority.
type ModelOptions struct {
	Temperature    *float64       `yaml:"temperature"` // 0 to 2
	TopP           *float64       `yaml:"topP"`        // 0 to 1
	Stop           []string       `yaml:"stop"`        // texts that end an answer
	ToolChoice     string         `yaml:"toolChoice"`  // auto, none, required, or the name of a tool
	ResponseFormat ResponseFormat `yaml:"responseFormat"`
}

// ResponseFormat is the format of the answers.
type ResponseFormat struct {
	Type   string         `yaml:"type"`   // text (default), json or json_schema
	Name   string         `yaml:"name"`   // of the schema
	Schema map[string]any `yaml:"schema"` // with json_schema: a JSON Schema
	Strict bool           `yaml:"strict"` // with json_schema: the provider enforces it
}

// Event returns the options as requests have them.
func (o ModelOptions) Event() (event.RequestOptions, error) {
	r := event.RequestOptions{Temperature: o.Temperature, TopP: o.TopP, Stop: o.Stop}
	switch mode := event.ToolMode(o.ToolChoice); mode {
	case "":
	case event.ChooseAuto, event.ChooseNone, event.ChooseRequired:
		r.ToolChoice = &event.ToolChoice{Mode: mode}
	default:
		r.ToolChoice = &event.ToolChoice{Mode: event.ChooseTool, Name: o.ToolChoice}
	}
	if o.ResponseFormat.Type == "" {
		return r, nil
	}
	f := event.ResponseFormat{Type: event.FormatType(o.ResponseFormat.Type), Name: o.ResponseFormat.Name, Strict: o.ResponseFormat.Strict}
	if f.Type == event.FormatSchema {
		text, err := jsonv2.Marshal(o.ResponseFormat.Schema, jsonv2.Deterministic(true))
		if err != nil {
			return r, fmt.Errorf("schema of the response format: %w", err)
		}
		f.Schema = json.RawMessage(text)
	}
	r.ResponseFormat = &f
	return r, nil
}

func (o ModelOptions) isZero() bool {
	return o.Temperature == nil && o.TopP == nil && len(o.Stop) == 0 && o.ToolChoice == "" && o.ResponseFormat.Type == "" &&
		o.ResponseFormat.Name == "" && o.ResponseFormat.Schema == nil && !o.ResponseFormat.Strict
}

// The values of Agent.PromptCaching and Agent.ReturnThinking.
const (
	PromptCachingOn  = "on"
	PromptCachingOff = "off"
)

// modelSettings checks what only the backends have that call the API of a model.
func (c checker) modelSettings(path string, a Agent) {
	c.choice(join(path, "effort"), a.Effort, "none", "low", "medium", "high", "xhigh", "max")
	c.choice(join(path, "promptCaching"), a.PromptCaching, PromptCachingOn, PromptCachingOff)
	c.choice(join(path, "returnThinking"), a.ReturnThinking, "never", "turn", "always")
	c.options(join(path, "options"), a)
	if a.Backend != backendScripted && !a.RunsProgram() && !a.BehindHTTP() && a.Backend != BackendRemote { // a backend of another module may take them
		return
	}
	for member, set := range map[string]bool{
		"effort": a.Effort != "", "options": !a.Options.isZero() && a.Backend != BackendHTTP, "fallback": len(a.Fallback) > 0,
		"headers": len(a.Headers) > 0 && !a.BehindHTTP(), "query": len(a.Query) > 0 && !a.BehindHTTP(), "provider": a.Provider != "",
		"promptCaching": a.PromptCaching != "", "returnThinking": a.ReturnThinking != "", "thinkTags": a.ThinkTags,
	} {
		if set {
			c.report(join(path, member), "backend %s has no such setting; remove it", a.Backend)
		}
	}
}

func (c checker) options(path string, a Agent) {
	o := a.Options
	if o.Temperature != nil && !(*o.Temperature >= 0 && *o.Temperature <= 2) {
		c.report(join(path, "temperature"), "must be a number from 0 to 2")
	}
	if o.TopP != nil && !(*o.TopP >= 0 && *o.TopP <= 1) {
		c.report(join(path, "topP"), "must be a number from 0 to 1")
	}
	if o.ToolChoice != "" && !id.Valid(o.ToolChoice) {
		c.report(join(path, "toolChoice"), "must be auto, none, required, or the name of a tool")
	}
	if len(o.Stop) > 0 && a.Backend == BackendResponses {
		c.report(join(path, "stop"), "the Responses API has no such option; remove it, or use backend: openai")
	}
	f := o.ResponseFormat
	at := join(path, "responseFormat")
	c.choice(join(at, "type"), f.Type, string(event.FormatText), string(event.FormatJSON), string(event.FormatSchema))
	switch {
	case f.Type == string(event.FormatSchema) && f.Schema == nil:
		c.report(join(at, "schema"), "is missing; write a JSON Schema, or type: json")
	case f.Type != string(event.FormatSchema) && f.Schema != nil:
		c.report(join(at, "type"), "must be json_schema, as there is a schema")
	case f.Type == string(event.FormatJSON) && a.Backend == BackendAnthropic:
		c.report(join(at, "type"), "json is not a format of Anthropic's API; write json_schema and a schema")
	}
}

// CostLimited reports which agent has a limit of cost and a model whose price is not known, nil without one: the limit would have
// no effect.
func (c Config) CostLimited() error {
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a := c.Agents[name]
		if a.Limits.Cost == 0 || !a.CallsModel() {
			continue
		}
		for _, model := range slices.Concat(a.AllowedModels(), a.Fallback) {
			if _, ok := c.Price(model); !ok && model != AnyModel && model != "" {
				return fmt.Errorf("agents.%s.limits.cost: the price of model %q is not known, so the limit would have no effect; add it "+
					"under models, such as models: {%s: {price: {input: 1, output: 5}}}, or remove the limit", name, model, quoted(model))
			}
		}
	}
	return nil
}

// quoted is a name as YAML takes it for a key.
func quoted(name string) string {
	if strings.ContainsAny(name, ":{}[],&*#?|<>=!%@\\ ") {
		return `"` + name + `"`
	}
	return cmp.Or(name, `""`)
}
