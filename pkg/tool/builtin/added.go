package builtin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/sandbox"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/command"
	"github.com/agentbus/agentbus/pkg/tool/files"
	"github.com/agentbus/agentbus/pkg/tool/httpcall"
	jsonv2 "github.com/go-json-experiment/json"
)

// addedSpecs are the specs of the tools that cfg adds.
func addedSpecs(cfg config.Config) map[string]tool.Spec {
	specs := map[string]tool.Spec{}
	for _, t := range fileTools(cfg) {
		specs[t.Spec().Name] = t.Spec()
	}
	for name, t := range cfg.Tools {
		if t.New() {
			specs[name] = newSpec(name, t)
		}
	}
	return specs
}

// newSpec is the spec of a tool that the configuration describes. Without a schema it has no arguments.
func newSpec(name string, t config.Tool) tool.Spec {
	spec := tool.Spec{
		Name: name, Description: t.Description, Schema: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		Effect: tool.EffectUnsafe, Approval: tool.ApprovalNever,
	}
	if t.HTTP.URL != "" {
		spec.Effect, spec.Timeout = httpcall.Effect(t.HTTP.Method), httpcall.Timeout
	} else {
		spec.Timeout, spec.MaxOutput = command.Timeout, command.MaxOutput
	}
	if schema, err := jsonv2.Marshal(t.Schema, jsonv2.Deterministic(true)); err == nil && t.Schema != nil {
		spec.Schema = schema // what YAML holds is JSON: the decoder refuses the rest
	}
	return t.Of(spec)
}

// fileTools are the tools for the folder that cfg names, if it names one.
func fileTools(cfg config.Config) []tool.Tool {
	if cfg.Files.Root == "" {
		return nil
	}
	o := files.Options{Root: cfg.Files.Root, Shared: cfg.Files.Shared, MaxFile: cfg.Files.MaxFile}
	tools := files.Reading(o)
	if !cfg.Files.ReadOnly {
		tools = append(tools, files.Writing(o)...)
	}
	for i, t := range tools {
		tools[i] = configured{Tool: t, spec: cfg.Tools[t.Spec().Name].Of(t.Spec())}
	}
	return tools
}

// added makes the tools that cfg adds.
func added(cfg config.Config, secret func(name string) (string, error)) ([]tool.Tool, error) {
	tools := fileTools(cfg)
	programs := map[sandbox.Report][]string{} // names of tools by what holds their programs
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		t := cfg.Tools[name]
		if !t.New() {
			continue
		}
		made, err := newTool(newSpec(name, t), t, cfg.Sandbox, secret, programs)
		if err != nil {
			return nil, fmt.Errorf("tools.%s: %w", name, err)
		}
		tools = append(tools, made)
	}
	for enforced, names := range programs { // one, unless the isolation of some is best-effort and incomplete
		slog.Info("programs of tools run in a sandbox", "tools", names, "sandbox", enforced)
	}
	return tools, nil
}

func newTool(
	spec tool.Spec, t config.Tool, box config.Sandbox, secret func(name string) (string, error), programs map[sandbox.Report][]string,
) (tool.Tool, error) {
	if len(t.Command.Argv) > 0 {
		made, enforced, err := command.New(spec, program(spec, t.Command, box), secret)
		programs[enforced] = append(programs[enforced], spec.Name)
		return made, err
	}
	allow, err := egress.ParseAllow(t.Allow)
	if err != nil {
		return nil, fmt.Errorf("allow: %w", err)
	}
	return httpcall.New(spec, httpcall.Request(t.HTTP), allow, secret)
}

// program is what the configuration says of a command. It may use the processor as long as the call may take.
func program(spec tool.Spec, c config.CommandTool, box config.Sandbox) command.Program {
	return command.Program{
		Argv: c.Argv, Stdin: c.Stdin, Env: c.Env, Events: c.Events, BestEffort: c.Isolation == config.IsolationBestEffort,
		Sandbox: sandbox.Policy{
			Dir: c.Dir, Writable: c.Writable, Read: c.Read, Cgroup: box.Cgroup,
			Limits: sandbox.Limits{
				CPU: c.Limits.CPU.Or(spec.Timeout), Memory: c.Limits.Memory, FileSize: c.Limits.FileSize, Processes: c.Limits.Processes,
				AddressSpace: c.Limits.AddressSpace,
			},
		},
	}
}
