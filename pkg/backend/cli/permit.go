package cli

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	jsonv2 "github.com/go-json-experiment/json"
)

// permits are the members of Turn.Options by which a remote client sets what a program may do without approval (TARS
// hub protocol, POST /tasks). Arguments of the operator take precedence.
type permits struct {
	Mode  string   `json:"permissionMode"` // default, acceptEdits, bypassPermissions
	Tools []string `json:"allowedTools"`   // nil = those of the mode, empty = no tool
}

// none reports whether the program may have no tool at all.
func (p permits) none() bool { return p.Tools != nil && len(p.Tools) == 0 }

// permitsOf reads options; those of other backends have none.
func permitsOf(options json.RawMessage) permits {
	var p permits
	if jsonv2.Unmarshal(options, &p) != nil {
		return permits{}
	}
	p.Tools = slices.DeleteFunc(p.Tools, func(name string) bool { return name == "" || strings.HasPrefix(name, "-") })
	return p
}

// claude gives the arguments for Claude Code.
func (p permits) claude(operators []string) (args []string) {
	if !has(operators, "--permission-mode", "--dangerously-skip-permissions") {
		args = flag(args, "--permission-mode", p.Mode)
	}
	if !has(operators, "--allowedTools", "--allowed-tools") {
		args = flag(args, "--allowedTools", strings.Join(p.Tools, ","))
	}
	return args
}

// toolless gives the arguments that take all tools from Claude Code, also the operator's.
func (p permits) toolless() []string {
	if !p.none() {
		return nil
	}
	return []string{"--tools", "", "--strict-mcp-config"}
}

// check refuses permits that the program has no option for: it would run with its tools.
func (p permits) check(b *Backend) error {
	switch {
	case !p.none(), b.program.toolless && !has(b.options.Args, "--mcp-config"):
		return nil
	case b.program.toolless:
		return apierr.New(apierr.InvalidMessageFormat, "%s has MCP servers in its cli.args and cannot run without tools; leave allowedTools out, or name tools",
			b.program.name)
	default:
		return apierr.New(apierr.InvalidMessageFormat, "%s cannot run without tools; leave allowedTools out", b.program.name)
	}
}

// codex gives the arguments for Codex, which by itself writes nothing.
func (p permits) codex(operators []string) []string {
	if has(operators, "-s", "--sandbox", "--full-auto", "--dangerously-bypass-approvals-and-sandbox") {
		return nil
	}
	switch p.Mode {
	case "acceptEdits":
		return []string{"-s", "workspace-write"}
	case "bypassPermissions":
		return []string{"-s", "danger-full-access"}
	default:
		return nil
	}
}

// has reports whether one of the flags is among args.
func has(args []string, flags ...string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		name, _, _ := strings.Cut(arg, "=")
		return slices.Contains(flags, name)
	})
}
