// Package mcpconfig makes the options of MCP servers from the configuration.
package mcpconfig

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/tool/mcp"
)

// Options returns the options of a server. secret returns the secrets that the configuration names.
func Options(name string, m config.MCPServer, secret func(string) (string, error)) (mcp.Options, error) {
	o := mcp.Options{
		Name: name, Command: m.Command, Args: m.Args, Dir: m.Dir, URL: m.URL, Tools: m.Tools,
		Resources: m.Resources, Prompts: m.Prompts, Elicitation: m.Elicitation, Events: m.Events,
		Headers: make(map[string]string, len(m.Headers)), Env: mcp.Environment(),
	}
	var err error
	if o.Allow, err = egress.ParseAllow(m.Allow); err != nil {
		return o, fmt.Errorf("allow: %w", err)
	}
	for header, value := range m.Headers {
		if o.Headers[header], err = reveal(value, secret); err != nil {
			return o, fmt.Errorf("headers.%s: %w", header, err)
		}
	}
	if m.OAuth != (config.MCPOAuth{}) {
		o.OAuth = &mcp.OAuth{ClientID: m.OAuth.ClientID, Issuer: m.OAuth.Issuer, TokenFile: m.OAuth.TokenFile}
		if o.OAuth.ClientSecret, err = reveal(m.OAuth.ClientSecret, secret); err != nil {
			return o, fmt.Errorf("oauth.clientSecret: %w", err)
		}
	}
	for _, variable := range slices.Sorted(maps.Keys(m.Env)) {
		value, err := reveal(m.Env[variable], secret)
		if err != nil {
			return o, fmt.Errorf("env.%s: %w", variable, err)
		}
		o.Env = append(o.Env, variable+"="+value)
	}
	return o, nil
}

var placeholder = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// reveal puts secrets where text names them, as ${NAME}.
func reveal(text string, secret func(string) (string, error)) (string, error) {
	var failed error
	text = placeholder.ReplaceAllStringFunc(text, func(name string) string {
		value, err := secret(strings.Trim(name, "${}"))
		if err != nil && failed == nil {
			failed = err
		}
		return value
	})
	return text, failed
}
