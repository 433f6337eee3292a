package config

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/redact"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// tools lists every tool that the file may name: those that are built in, and those that the file itself adds.
func (c checker) tools(cfg Config) []string {
	if len(c.known.Tools) == 0 {
		return nil
	}
	names := append(slices.Clone(c.known.Tools), cfg.Files.Tools()...)
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		if cfg.Tools[name].New() {
			names = append(names, name)
		}
	}
	return names
}

func (c checker) tool(path, name string, t Tool, tools []string) {
	switch {
	case t.New():
		c.newTool(path, name, t)
	case len(tools) > 0 && !slices.Contains(tools, name) && !c.offered(name):
		c.report(path, "unknown tool %q; %s", name, cure(name, tools))
	case t.Description != "" || t.Schema != nil:
		c.report(path, "describes a tool without its action; add http or command")
	}
	c.approval(join(path, "approval"), t.Approval)
	c.effect(join(path, "effect"), t.Effect)
	atLeastZero(c, join(path, "timeout"), t.Timeout)
	atLeastZero(c, join(path, "maxOutput"), t.MaxOutput)
	c.allow(join(path, "allow"), t.Allow)
}

func (c checker) effect(path string, e tool.Effect) {
	if e != "" {
		c.oneOf(path, "effect", string(e), []string{string(tool.EffectNone), string(tool.EffectIdempotent), string(tool.EffectUnsafe)})
	}
}

// allow checks what the egress guard is to let through.
func (c checker) allow(path string, list []string) {
	for i, allowed := range list {
		if strings.Contains(allowed, "/") {
			if _, err := netip.ParsePrefix(allowed); err != nil {
				c.report(fmt.Sprintf("%s[%d]", path, i), "%q is not a CIDR; write one such as 10.1.0.0/16, or a host name", allowed)
			}
		}
	}
}

// agentTools checks the agents that an agent may call.
func (c checker) agentTools(path, name string, a Agent) {
	for i, called := range a.Agents {
		at := fmt.Sprintf("%s.agents[%d]", path, i)
		switch {
		case !id.Valid(AgentTool(called)):
			c.report(at, "the name of an agent that others call has at most %d letters, digits, _ and -", id.MaxLength-len(agentPrefix))
		case called == name:
			c.report(at, "an agent cannot call itself; remove it")
		case slices.Contains(a.Agents[:i], called):
			c.report(at, "agent %q is in the list twice; remove one", called)
		case c.base != nil:
			c.oneOf(at, "agent", called, slices.Concat(slices.Collect(maps.Keys(c.base)), slices.Collect(maps.Keys(c.agents))))
		}
	}
}

func (c checker) approval(path string, a tool.Approval) {
	if a != "" {
		c.oneOf(path, "approval", string(a), []string{string(tool.ApprovalAlways), string(tool.ApprovalNever)})
	}
}

func (c checker) newTool(path, name string, t Tool) {
	if !id.Valid(name) {
		c.report(path, "the name of a tool has letters, digits, _ and - only, at most %d", id.MaxLength)
	}
	if slices.Contains(c.known.Tools, name) || slices.Contains(Files{Root: "/"}.Tools(), name) {
		c.report(path, "%q is a tool that there is already; give yours another name", name)
	}
	c.ownTool(path, name)
	if t.Description == "" {
		c.report(path, "has no description; describe the tool for the model")
	}
	if t.Schema != nil && t.Schema["type"] != "object" {
		c.report(join(path, "schema"), "must be a JSON Schema of an object; start it with type: object")
	} else {
		c.schema(join(path, "schema"), name, t.Schema)
	}
	if t.HTTP.URL != "" && len(t.Command.Argv) > 0 {
		c.report(path, "has http and command; a tool is one of them")
	}
	if t.HTTP.URL != "" {
		c.httpTool(join(path, "http"), t.HTTP, declared(t.Schema))
	}
	if len(t.Command.Argv) > 0 {
		c.commandTool(join(path, "command"), t.Command, declared(t.Schema))
	}
}

// toolURL has a scheme and a host that no argument can change.
var toolURL = regexp.MustCompile(`^https?://[^/{}$?#@\s]+(/[^?#\s]*)?$`)

func (c checker) httpTool(path string, h HTTPTool, arguments *[]string) {
	c.choice(join(path, "method"), h.Method, http.MethodGet, "POST", "PUT", "PATCH", "DELETE")
	if !toolURL.MatchString(h.URL) {
		c.report(join(path, "url"),
			"%q must be a URL such as https://api.example.com/users/{id}: its path may contain arguments, the rest belongs into query",
			redact.URL(h.URL))
	} else {
		c.places(join(path, "url"), h.URL, arguments)
	}
	c.placesOf(join(path, "query"), h.Query, arguments)
	c.placesOf(join(path, "headers"), h.Headers, arguments)
	c.placesIn(join(path, "body"), h.Body, arguments)
	if h.Body != nil && (h.Method == "" || h.Method == http.MethodGet) {
		c.report(join(path, "body"), "a GET has no body; set method, or use query")
	}
	if !jsontext.Pointer(h.Result).IsValid() {
		c.report(join(path, "result"), "%q is not a JSON pointer (RFC 6901); write one such as /data/items", h.Result)
	}
}

// schema reports a schema of arguments that is not a JSON Schema.
func (c checker) schema(path, name string, schema map[string]any) {
	text, err := json.Marshal(schema)
	if schema == nil || err != nil {
		return // the decoder accepts only what JSON has
	}
	if _, err := tool.CompileSchema(tool.Spec{Name: name, Schema: text}); err != nil {
		c.report(path, "%v", err)
	}
}

func (c checker) commandTool(path string, t CommandTool, arguments *[]string) {
	for i, text := range t.Argv {
		c.places(fmt.Sprintf("%s.argv[%d]", path, i), text, arguments)
	}
	c.places(join(path, "stdin"), t.Stdin, arguments)
	c.placesOf(join(path, "env"), t.Env, nil)
	if strings.ContainsAny(t.Argv[0], "{}") {
		c.report(path+".argv[0]", "the program must not depend on arguments of the model; write its name")
	}
	c.choice(join(path, "isolation"), t.Isolation, IsolationStrict, IsolationBestEffort)
	if t.Dir != "" && !filepath.IsAbs(t.Dir) {
		c.report(join(path, "dir"), "%q must be an absolute path", t.Dir)
	}
	if t.Writable && t.Dir == "" {
		c.report(join(path, "writable"), "requires dir; add it")
	}
	for i, p := range t.Read {
		if !filepath.IsAbs(p) {
			c.report(fmt.Sprintf("%s.read[%d]", path, i), "%q must be an absolute path", p)
		}
	}
	limits := join(path, "limits")
	atLeastZero(c, join(limits, "cpu"), t.Limits.CPU)
	atLeastZero(c, join(limits, "memory"), t.Limits.Memory)
	atLeastZero(c, join(limits, "addressSpace"), t.Limits.AddressSpace)
	atLeastZero(c, join(limits, "fileSize"), t.Limits.FileSize)
	atLeastZero(c, join(limits, "processes"), t.Limits.Processes)
}

func (c checker) files(f Files) {
	if f.Root == "" && f != (Files{}) {
		c.report("files", "has no root; add the folder that the file tools may use")
	}
	if f.Root != "" && !filepath.IsAbs(f.Root) {
		c.report("files.root", "%q must be an absolute path", f.Root)
	}
	atLeastZero(c, "files.maxFile", f.MaxFile)
}

func (c checker) sandbox(s Sandbox) {
	if s.Cgroup != "" && !filepath.IsAbs(s.Cgroup) {
		c.report("sandbox.cgroup", "%q must be an absolute path, such as /sys/fs/cgroup/system.slice/agentbus.service", s.Cgroup)
	}
}
