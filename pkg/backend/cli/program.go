package cli

import (
	"slices"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/cli/wire"
	"github.com/agentbus/agentbus/pkg/backend/internal/program"
)

// agent describes a supported program.
type agent struct {
	name    string // in messages to people
	command string
	cure    string // when it is not there
	env     string // prefixes of the program's environment variables, separated by commas
	limits  bool   // it keeps limits of turns by itself
	// toolless says that it has options to run without tools.
	toolless bool
	// asks reports whether it asks for permissions; its standard input is then a dialog. nil = never.
	asks    func(o Options, a ask) bool
	tell    func(o Options, a ask) (args []string, stdin string)
	decoder func(o Options) wire.Decoder
}

// ask is one question to a program.
type ask struct {
	Session backend.State
	Resumes bool
	Model   string
	System  string
	Prompt  string
	Limits  backend.Limits
	Permits permits
}

// prompted returns the prompt for a program without an option for the system prompt: the first prompt of a session
// begins with it.
func (a ask) prompted() string {
	if a.System == "" || a.Resumes {
		return a.Prompt
	}
	return strings.TrimSpace(a.System) + "\n\n" + a.Prompt
}

// Claude runs Claude Code.
func Claude(o Options) *Backend {
	return newBackend(agent{
		name: "Claude Code", command: "claude", env: "ANTHROPIC_,CLAUDE_", limits: true, toolless: true,
		cure:    "install it by npm install -g @anthropic-ai/claude-code, or give the agent the command that runs it",
		decoder: func(Options) wire.Decoder { return wire.Claude() },
		asks:    func(o Options, a ask) bool { return a.Permits.claudeAsks(o.Args) },
		tell: func(o Options, a ask) ([]string, string) {
			args := []string{"-p", "--output-format", "stream-json", "--verbose", "--include-partial-messages"}
			args = flag(args, "--model", a.Model)
			args = flag(args, "--append-system-prompt", a.System)
			if a.Resumes {
				args = flag(args, "--resume", a.Session.ID)
			}
			if a.Limits.Turns > 0 {
				args = append(args, "--max-turns", strconv.Itoa(a.Limits.Turns))
			}
			if a.Limits.CostUSD > 0 { // it counts what the session has cost before
				args = append(args, "--max-budget-usd", strconv.FormatFloat(a.Session.Used.CostUSD+a.Limits.CostUSD, 'f', 6, 64))
			}
			args = append(args, a.Permits.claude(o.Args)...)
			if a.Permits.claudeAsks(o.Args) {
				args = append(args, "--input-format", "stream-json", "--permission-prompt-tool", "stdio")
			}
			args = append(args, o.Args...)
			return append(args, a.Permits.toolless()...), a.Prompt
		},
	}, o)
}

// Codex runs Codex, which has no options for limits: the caller enforces them.
func Codex(o Options) *Backend {
	return newBackend(agent{
		name: "Codex", command: "codex", env: "OPENAI_,CODEX_",
		cure:    "install it by npm install -g @openai/codex, or give the agent the command that runs it",
		decoder: func(Options) wire.Decoder { return wire.Codex() },
		tell: func(o Options, a ask) ([]string, string) {
			args := flag([]string{"exec", "--json", "--skip-git-repo-check"}, "--model", a.Model)
			args = append(append(args, a.Permits.codex(o.Args)...), o.Args...)
			if a.Resumes {
				args = append(args, "resume", a.Session.ID)
			}
			return append(args, "-"), a.prompted()
		},
	}, o)
}

// OpenCode runs OpenCode.
func OpenCode(o Options) *Backend {
	return newBackend(agent{
		name: "OpenCode", command: "opencode", env: "OPENCODE_,OPENAI_,ANTHROPIC_",
		cure:    "install it by npm install -g opencode-ai, or give the agent the command that runs it",
		decoder: func(Options) wire.Decoder { return wire.OpenCode() },
		tell: func(o Options, a ask) ([]string, string) {
			args := flag([]string{"run", "--format", "json"}, "--model", a.Model)
			if a.Resumes {
				args = flag(args, "--session", a.Session.ID)
			}
			return append(args, o.Args...), a.prompted()
		},
	}, o)
}

// New runs the program that o names: its arguments are those of o, in which "{model}" and "{prompt}" stand for what they
// say. A prompt that no argument has comes on its standard input. What users say is never an option: where an argument
// begins with it, and it with a dash, a space comes first.
func New(o Options) *Backend {
	return newBackend(agent{
		name: o.Command, cure: "install it, or give the agent the command that runs it", tell: tell,
		decoder: func(o Options) wire.Decoder {
			if o.Output == OutputRecords {
				return wire.Records(o.Fields)
			}
			return wire.Text()
		},
	}, o)
}

func tell(o Options, a ask) (args []string, stdin string) {
	args = slices.Clone(o.Args)
	if o.SessionMode != SessionNone && a.Session.ID != "" && (a.Resumes || o.SessionMode == SessionAlways) {
		args = append(args, o.SessionArgs...)
	}
	prompted := a.prompted()
	fill := strings.NewReplacer("{model}", a.Model, "{session}", a.Session.ID, "{prompt}", prompted)
	stdin = prompted
	for i, arg := range args {
		if strings.Contains(arg, "{prompt}") {
			stdin = ""
		}
		args[i] = fill.Replace(arg)
		if strings.HasPrefix(args[i], "-") && !strings.HasPrefix(arg, "-") {
			args[i] = " " + args[i]
		}
	}
	return args, stdin
}

// flag adds an option with a value. One that begins with a dash is tied to its name, or some programs would take it for
// another option: models are named by users.
func flag(args []string, name, value string) []string {
	switch {
	case value == "":
		return args
	case strings.HasPrefix(value, "-"):
		return append(args, name+"="+value)
	default:
		return append(args, name, value)
	}
}

// environment is what the program gets: the usual variables and its own, and what o says.
func environment(p agent, o Options) []string {
	var own []string
	if p.env != "" {
		own = strings.Split(p.env, ",")
	}
	return program.Environment(program.Variables{Own: own, Pass: o.PassEnv, Clear: o.ClearEnv, Set: o.Env})
}
