package cli

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
)

// permits are what a program may do without the approval of the user, as the agent or a remote client sets it (TARS hub
// protocol, POST /tasks). Arguments of the operator take precedence.
type permits struct {
	mode  permission.Mode
	tools []string // nil = those of the mode, empty = no tool
	asks  bool     // the user decides about other calls
}

// none reports whether the program may have no tool at all.
func (p permits) none() bool { return p.tools != nil && len(p.tools) == 0 }

// permitsOf returns the permits of a turn.
func permitsOf(o Options, options json.RawMessage) permits {
	task := permission.TaskOf(options)
	p := permits{mode: task.Mode, asks: task.Asks(o.Permissions)}
	if o.Permissions != permission.Ask {
		p.mode = cmp.Or(p.mode, o.Permissions)
	}
	p.tools = slices.DeleteFunc(task.Tools, func(name string) bool { return name == "" || strings.HasPrefix(name, "-") })
	return p
}

// claude gives the arguments for Claude Code.
func (p permits) claude(operators []string) (args []string) {
	if !has(operators, "--permission-mode", "--dangerously-skip-permissions") {
		args = flag(args, "--permission-mode", string(p.mode))
	}
	if !has(operators, "--allowedTools", "--allowed-tools") {
		args = flag(args, "--allowedTools", strings.Join(p.tools, ","))
	}
	return args
}

// claudeAsks reports whether Claude Code asks this process for permissions.
func (p permits) claudeAsks(operators []string) bool {
	return p.asks && !has(operators, "--permission-prompt-tool", "--permission-prompts", "--input-format")
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
	switch p.mode {
	case permission.Edits:
		return []string{"-s", "workspace-write"}
	case permission.All:
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
