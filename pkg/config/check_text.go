package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/contextvar"
)

// Places are what a text of a tool refers to: arguments of the call by "{name}", and secrets by "${NAME}".
type Places struct {
	Arguments []string
	Secrets   []string
}

// places checks what the text at path refers to. Arguments is nil if the text may name any argument.
func (c checker) places(path, text string, arguments *[]string) {
	if c.known.Places == nil {
		return
	}
	found, err := c.known.Places(text)
	if err != nil {
		c.report(path, "%v", err)
		return
	}
	for _, name := range found.Arguments {
		if arguments != nil && !slices.Contains(*arguments, name) {
			c.report(path, "{%s} is not an argument: schema.properties does not have it; %s", name, addOrUse(name, *arguments))
		}
	}
	c.secrets(path, found.Secrets)
}

// addOrUse is the remedy for an argument that a schema does not declare.
func addOrUse(name string, arguments []string) string {
	if best := closest(name, arguments); best != "" {
		return fmt.Sprintf("did you mean {%s}?", best)
	}
	return fmt.Sprintf("add %s there, or write {{%s}} for the text itself", name, name)
}

func (c checker) secrets(path string, names []string) {
	for _, name := range names {
		if c.known.Secret == nil {
			return
		}
		if err := c.known.Secret(name); err != nil {
			c.report(path, "%v", err)
		}
	}
}

// placesIn checks all texts of a value.
func (c checker) placesIn(path string, value any, arguments *[]string) {
	switch v := value.(type) {
	case string:
		c.places(path, v, arguments)
	case []any:
		for i, item := range v {
			c.placesIn(fmt.Sprintf("%s[%d]", path, i), item, arguments)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			c.placesIn(join(path, name), v[name], arguments)
		}
	}
}

func (c checker) placesOf(path string, texts map[string]string, arguments *[]string) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		c.places(join(path, name), texts[name], arguments)
	}
}

// declared lists the arguments that the schema of a tool declares; nil if calls may have others too.
func declared(schema map[string]any) *[]string {
	for _, open := range []string{"$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"} {
		if _, ok := schema[open]; ok {
			return nil
		}
	}
	if more, ok := schema["additionalProperties"]; ok && more != false {
		return nil
	}
	properties, _ := schema["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(properties))
	return &names
}

// environmentPlace is the place of a secret in a text of an MCP server, in which other braces are ordinary characters.
var environmentPlace = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

func (c checker) mcpSecrets(path string, texts map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		for _, found := range environmentPlace.FindAllStringSubmatch(texts[name], -1) {
			c.secrets(join(path, name), found[1:])
		}
	}
}

// contextPlace is what an author of a prompt means as the place of a value of the request's context.
var contextPlace = regexp.MustCompile(`\{\s*context\.[^{}\n]*\}`)

// prompt checks the places of a prompt. Other braces are ordinary characters in it.
func (c checker) prompt(path, text string) {
	for _, found := range contextPlace.FindAllString(text, -1) {
		if !contextvar.IsName(found[1 : len(found)-1]) {
			c.report(path, "%.80q is not a value of the context; write {context.NAME}, with letters, digits, _ and - in each name", found)
		}
	}
}

// script checks the script of an agent whose backend runs scripts.
func (c checker) script(path string, a Agent) {
	if a.Script == "" || a.Backend != backendScripted || c.known.Script == nil {
		return
	}
	if err := c.known.Script(a.Script); err != nil {
		c.report(path, "%v", err)
	}
}

const backendScripted = "scripted"

// model reports an agent without a model whose backend needs one.
func (c checker) model(path string, a Agent) {
	example, ok := map[string]string{BackendOpenAI: DefaultOpenAIModel, BackendResponses: DefaultOpenAIModel, BackendAnthropic: DefaultAnthropicModel}[a.Backend]
	if ok && strings.TrimSpace(a.Model) == "" {
		c.report(path, "has no model; add the name of one, such as model: %s", example)
	}
}
