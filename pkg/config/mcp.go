package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
)

// MCPServer is a server whose tools agents may use (Model Context Protocol): a process, or an HTTP address.
type MCPServer struct {
	Command string            `yaml:"command"` // the program; it is started without a shell
	Args    []string          `yaml:"args"`
	Env     map[string]string `yaml:"env"` // its whole environment, except for PATH, HOME, LANG and TMPDIR; "${NAME}" for a secret
	Dir     string            `yaml:"dir"` // folder that it runs in; default: the tool-executor's

	URL     string            `yaml:"url"`     // of streamable HTTP, instead of command
	Headers map[string]string `yaml:"headers"` // "${NAME}" for a secret
	OAuth   MCPOAuth          `yaml:"oauth"`   // instead of a token in headers
	Allow   []string          `yaml:"allow"`   // hosts or CIDRs that it may redirect to though they are private

	Resources   bool `yaml:"resources"`   // the tools list_resources and read_resource read its resources
	Prompts     bool `yaml:"prompts"`     // the tools list_prompts and get_prompt read its prompts
	Elicitation bool `yaml:"elicitation"` // it may ask the user questions while a tool runs
	Events      bool `yaml:"events"`      // its tools may emit events while they run

	Tools     []string      `yaml:"tools"`    // as the server names them; default: all; [] = none
	Approval  tool.Approval `yaml:"approval"` // of all its tools; default: always, but never for those that it calls read-only
	Effect    tool.Effect   `yaml:"effect"`   // of all its tools; default: as the server declares for each, else unsafe
	Timeout   Duration      `yaml:"timeout"`
	MaxOutput int64         `yaml:"maxOutput"` // bytes
}

// MCPOAuth is a client of the authorization server of an MCP server (OAuth 2): one that has tokens for itself (client
// credentials), or, with TokenFile, those of a user who has logged in.
type MCPOAuth struct {
	TokenFile    string `yaml:"tokenFile"` // of `agentbus mcp login`; the other members are then optional
	Issuer       string `yaml:"issuer"`    // URL of the authorization server: the only one that gets the secret
	ClientID     string `yaml:"clientId"`
	ClientSecret string `yaml:"clientSecret"` // "${NAME}"
}

// The names of an MCP server's tools are its own name, mcpSeparator, and what the server calls them; mcpAll stands for all.
const (
	mcpSeparator = "__"
	mcpAll       = "*"
	maxMCPName   = 24
)

// MCPTool reports of the name of a tool which MCP server it is from, and whether it stands for all tools of that one.
func (c Config) MCPTool(name string) (server string, all, ok bool) {
	server, theirs, found := strings.Cut(name, mcpSeparator)
	_, known := c.MCP[server]
	return server, theirs == mcpAll, found && known && theirs != ""
}

// Elicits reports whether an MCP server may ask users.
func (c Config) Elicits() bool {
	for _, m := range c.MCP {
		if m.Elicitation {
			return true
		}
	}
	return false
}

// MCPSpec is the spec of a tool that an MCP server offers, with what the configuration says about it: about the tool
// itself first, then about the server.
func (c Config) MCPSpec(server string, spec tool.Spec) tool.Spec {
	m := c.MCP[server]
	spec = Tool{Approval: m.Approval, Effect: m.Effect, Timeout: m.Timeout, MaxOutput: m.MaxOutput}.Of(spec)
	return c.Tools[spec.Name].Of(spec)
}

func (c checker) mcp(path, name string, m MCPServer) {
	switch {
	case !id.Valid(name) || len(name) > maxMCPName || strings.Contains(name, mcpSeparator):
		c.report(path, "the name of an MCP server has letters, digits, _ and - only, at most %d, and no %q", maxMCPName, mcpSeparator)
	case name == strings.TrimSuffix(agentPrefix, mcpSeparator):
		c.report(path, "%q is where the names of agents as tools begin; give the server another name", name)
	}
	switch {
	case m.Command == "" && m.URL == "":
		c.report(path, "has neither command nor url; add one of them")
	case m.Command != "" && m.URL != "":
		c.report(path, "has both command and url; a server is one of them")
	case m.URL != "" && (len(m.Args) > 0 || len(m.Env) > 0 || m.Dir != ""):
		c.report(path, "has a url, so no process is started; remove args, env and dir")
	case m.Command != "" && (len(m.Headers) > 0 || len(m.Allow) > 0 || m.OAuth != MCPOAuth{}):
		c.report(path, "has a command, so it is not reached by HTTP; remove headers, oauth and allow")
	}
	c.mcpOAuth(join(path, "oauth"), m.OAuth)
	c.httpURL(join(path, "url"), m.URL)
	c.mcpSecrets(join(path, "headers"), m.Headers)
	c.mcpSecrets(join(path, "env"), m.Env)
	if m.Dir != "" && !filepath.IsAbs(m.Dir) {
		c.report(join(path, "dir"), "%q must be an absolute path", m.Dir)
	}
	for i, t := range m.Tools {
		if slices.Contains(m.Tools[:i], t) {
			c.report(fmt.Sprintf("%s.tools[%d]", path, i), "tool %q is in the list twice; remove one", t)
		}
	}
	c.approval(join(path, "approval"), m.Approval)
	c.effect(join(path, "effect"), m.Effect)
	c.allow(join(path, "allow"), m.Allow)
	atLeastZero(c, join(path, "timeout"), m.Timeout)
	atLeastZero(c, join(path, "maxOutput"), m.MaxOutput)
}

func (c checker) mcpOAuth(path string, o MCPOAuth) {
	switch {
	case o.TokenFile != "" && !filepath.IsAbs(o.TokenFile):
		c.report(join(path, "tokenFile"), "%q must be an absolute path", o.TokenFile)
	case o.TokenFile != "" && o.ClientSecret != "" && o.ClientID == "":
		c.report(path, "has a clientSecret without clientId")
	case o.TokenFile == "" && o != (MCPOAuth{}) && (o.Issuer == "" || o.ClientID == "" || o.ClientSecret == ""):
		c.report(path, "needs issuer, clientId and clientSecret, or tokenFile")
	}
	c.httpURL(join(path, "issuer"), o.Issuer)
	c.mcpSecrets(path, map[string]string{"clientSecret": o.ClientSecret})
}

// offered reports whether name is a tool, or all tools, of an MCP server that the file has. What that offers is not known
// here.
func (c checker) offered(name string) bool {
	_, _, ok := Config{MCP: c.servers}.MCPTool(name)
	return ok
}

// gives reports whether tools, the list of an agent, brings it the tool of that name.
func (c checker) gives(tools []string, name string) bool {
	server, _, ok := Config{MCP: c.servers}.MCPTool(name)
	return slices.Contains(tools, name) || ok && slices.Contains(tools, server+mcpSeparator+mcpAll)
}
