package config

import (
	"slices"
	"strings"
)

// The backends that run a program on the runner's machine.
const (
	BackendClaude   = "claude-code"
	BackendCodex    = "codex"
	BackendOpenCode = "opencode"
	BackendCLI      = "cli" // any other program
	BackendACP      = "acp" // a program that speaks the Agent Client Protocol
)

// CLI is how an agent on the command line runs.
type CLI struct {
	Command  string            `yaml:"command"`  // default: the program's own name
	Args     []string          `yaml:"args"`     // in addition to the program's default arguments
	Env      map[string]string `yaml:"env"`      // set for the program
	PassEnv  []string          `yaml:"passEnv"`  // names of variables of the runner to pass on, in addition to the defaults and the program's own
	ClearEnv []string          `yaml:"clearEnv"` // names of those that it does not get; "*" = none of the usual ones
	Quiet    Quiet             `yaml:"quiet"`
	UnitCost float64           `yaml:"unitCost"` // what a turn counts as, in US dollars, where the program does not say: of a subscription

	Auth string `yaml:"auth"` // of programs that speak the Agent Client Protocol: id of the way to authenticate; default: none

	// Only for programs that speak the Agent Client Protocol, and for Claude Code: ask (default of the former), default, acceptEdits,
	// bypassPermissions.
	Permissions string `yaml:"permissions"`

	// Only for programs other than Claude Code, Codex and OpenCode.
	SessionMode string   `yaml:"sessionMode"` // existing (default), always, none
	SessionArgs []string `yaml:"sessionArgs"` // that resume a session; "{session}" stands for its id
	Output      string   `yaml:"output"`      // text (default), ndjson
	Fields      Fields   `yaml:"fields"`      // of ndjson
}

// Quiet is how long a program may print nothing before it counts as stuck.
type Quiet struct {
	Fresh  Duration `yaml:"fresh"`  // default 2m
	Resume Duration `yaml:"resume"` // in a session that is resumed; default 5m
}

// Fields are the paths of values in a line of a program's output, such as message.text.
type Fields struct {
	Text    []string `yaml:"text"`    // default text, delta, content
	Session []string `yaml:"session"` // default session_id, sessionId, conversation_id
	Error   []string `yaml:"error"`   // default error.message, error
}

// RunsProgram reports whether the agent is a program on the runner's machine.
func (a Agent) RunsProgram() bool {
	return slices.Contains([]string{BackendClaude, BackendCodex, BackendOpenCode, BackendCLI, BackendACP}, a.Backend)
}

func (f Fields) isZero() bool { return len(f.Text)+len(f.Session)+len(f.Error) == 0 }

func (c CLI) isZero() bool {
	return c.Command == "" && len(c.Args)+len(c.Env)+len(c.PassEnv)+len(c.ClearEnv) == 0 && c.Quiet == Quiet{} &&
		c.UnitCost == 0 && c.customOnlyField() == "" && c.Auth == "" && c.Permissions == ""
}

// customOnlyField returns the first field set that is valid only for programs other than the supported ones; "" without
// one.
func (c CLI) customOnlyField() string {
	switch {
	case c.SessionMode != "":
		return "sessionMode"
	case len(c.SessionArgs) > 0:
		return "sessionArgs"
	case c.Output != "":
		return "output"
	case !c.Fields.isZero():
		return "fields"
	default:
		return ""
	}
}

// program checks what an agent says about its program, or that it says nothing.
func (c checker) program(path string, a Agent) {
	cli := join(path, "cli")
	if !a.RunsProgram() {
		if !a.CLI.isZero() {
			c.report(cli, "is for the backends claude-code, codex, opencode, acp and cli; remove it, or change the backend")
		}
		return
	}
	if a.Workspace == "" {
		c.report(path, "has no folder to work in; add one, such as workspace: /srv/project")
	}
	if len(a.Tools)+len(a.Agents)+len(a.ClientTools) > 0 || a.AskUser || a.Planning || a.FinalAnswer {
		c.report(path, "%s runs its own tools and accepts no others; remove tools, agents, clientTools, askUser, planning and finalAnswer",
			a.Backend)
	}
	if member := a.CLI.customOnlyField(); member != "" && a.Backend != BackendCLI {
		c.report(join(cli, member), "is known of %s; remove it, or write backend: cli", a.Backend)
	}
	if a.CLI.Auth != "" && a.Backend != BackendACP {
		c.report(join(cli, "auth"), "is only for backend: acp; remove it, or change the backend")
	}
	if a.CLI.Permissions != "" && a.Backend != BackendACP && a.Backend != BackendClaude {
		c.report(join(cli, "permissions"), "is for the backends acp and claude-code; remove it, or change the backend: docs/backends.md has the reasons")
	}
	if a.Backend == BackendCLI {
		c.anyProgram(cli, a)
	}
	if a.Backend == BackendACP && a.CLI.Command == "" {
		c.report(cli, "has no command; add the program that speaks the Agent Client Protocol, such as command: gemini and args: [--acp]")
	}
	c.choice(join(cli, "permissions"), a.CLI.Permissions, "ask", "default", "acceptEdits", "bypassPermissions")
	for _, name := range slices.Concat(a.CLI.PassEnv, a.CLI.ClearEnv) {
		if strings.ContainsAny(name, "= \n") {
			c.report(cli, "%.40q is the name of no environment variable; passEnv and clearEnv have names, env has values", name)
		}
	}
	atLeastZero(c, join(cli, "quiet.fresh"), a.CLI.Quiet.Fresh)
	atLeastZero(c, join(cli, "quiet.resume"), a.CLI.Quiet.Resume)
	if !(a.CLI.UnitCost >= 0) { // also finds NaN
		c.report(join(cli, "unitCost"), "must not be negative; leave it out when a turn costs nothing")
	}
}

func (c checker) anyProgram(path string, a Agent) {
	if a.CLI.Command == "" {
		c.report(path, "has no command; add the program that runs, such as command: my-agent")
	}
	c.choice(join(path, "sessionMode"), a.CLI.SessionMode, "existing", "always", "none")
	c.choice(join(path, "output"), a.CLI.Output, "text", "ndjson")
	if a.CLI.SessionMode == "always" && len(a.CLI.SessionArgs) == 0 {
		c.report(path, "names a session always, and not how; add sessionArgs: [--session, \"{session}\"]")
	}
	if !a.CLI.Fields.isZero() && a.CLI.Output != "ndjson" {
		c.report(join(path, "fields"), "are those of lines that are JSON; add output: ndjson")
	}
}
