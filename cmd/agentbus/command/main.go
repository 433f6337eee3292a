// Package command is the command line of agentbus. `agentbus dev` runs all services in one process, `agent-runner` and
// `tool-executor` run these services. The other commands are clients of any gateway, and manage API keys.
package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/prompt"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/sandbox"
	"github.com/alecthomas/kong"
)

// The exit codes.
const (
	exitFailed = 1 // the command failed
	exitUsage  = 2 // the command line is wrong, nothing was done
)

// globals are the flags of every command.
type globals struct {
	URL     string      `env:"AGENTBUS_URL" default:"http://127.0.0.1:8080" help:"Address of the gateway."`
	Key     string      `env:"AGENTBUS_KEY" help:"API key, where the gateway asks for one."`
	JSON    bool        `help:"Write JSON for programs, one value a line."`
	Version versionFlag `help:"Print the version."`
}

func (g globals) client() *client.Client { return client.New(withScheme(g.URL), g.Key) }

// withScheme adds http:// to an address without a scheme.
func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return address
	}
	return "http://" + address
}

// commandLine is the whole command line. The commands with the tag "local" call no gateway.
type commandLine struct {
	globals

	Init      initCommand       `cmd:"" local:"" help:"Write a small configuration that starts, with an agent in Python and a tool."`
	Check     checkCommand      `cmd:"" local:"" help:"Check a configuration file."`
	Dev       devCommand        `cmd:"" local:"" help:"Run everything in one process, on embedded servers."`
	Chat      chatCommand       `cmd:"" help:"Talk to an agent."`
	Run       runCommand        `cmd:"" help:"Run one request and print the response, or start it in the background."`
	Tail      tailCommand       `cmd:"" help:"Follow a request."`
	Inspect   inspectCommand    `cmd:"" help:"Look at what happened in a request or on a thread."`
	Steer     steerCommand      `cmd:"" help:"Say something to a request that runs."`
	FollowUp  followUpCommand   `cmd:"" help:"Start a request that runs after another one, and print its id."`
	Abort     abortCommand      `cmd:"" help:"Stop a request."`
	Actions   actionsCommand    `cmd:"" help:"List the approvals, client tools and questions that wait for an answer."`
	Threads   threadsCommand    `cmd:"" help:"List threads; show or delete one."`
	Agents    agentsCommand     `cmd:"" help:"List the agents; register and remove remote ones."`
	Runner    runnerCommand     `cmd:"" local:"" name:"agent-runner" help:"Run the service agent-runner. Its settings are environment variables."`
	Executor  executorCommand   `cmd:"" local:"" name:"tool-executor" help:"Run the service tool-executor. Its settings are environment variables."`
	MCP       mcpCommand        `cmd:"" name:"mcp" help:"Serve the tools of the hub (Model Context Protocol), or log in at an MCP server."`
	ACP       acpCommand        `cmd:"" name:"acp" help:"Serve an agent to an editor over standard input and output (Agent Client Protocol)."`
	Keys      keysCommand       `cmd:"" local:"" help:"Make, list and revoke API keys."`
	NATS      natsConfigCommand `cmd:"" local:"" name:"nats-config" help:"Write a user and the permissions of each service for a NATS server."`
	Provision provisionCommand  `cmd:"" local:"" help:"Create the streams, consumers and buckets on NATS."`
	History   historyCommand    `cmd:"" local:"" help:"Work on the database of history."`
	Info      versionCommand    `cmd:"" local:"" name:"version" help:"Print the version."`
	Help      helpCommand       `cmd:"" help:"Show the help of a command."`

	Completion completionCommand `cmd:"" local:"" help:"Print a script that completes commands in bash, zsh or fish."`
	Complete   completeCommand   `cmd:"" hidden:""`
}

// console has the streams of a command.
type console struct {
	in       io.Reader
	out      io.Writer // the requested output
	err      io.Writer // everything else
	terminal bool      // out is a terminal
	typed    bool      // the input is a terminal
	getenv   func(string) string
	signals  func() (interrupts <-chan os.Signal, stop func())

	extensions app.Extensions
}

func (c *console) screen(asJSON bool) *screen.Screen {
	return screen.New(c.out, c.err, screen.Options{Colour: c.terminal, JSON: asJSON, Echo: c.typed})
}

// editor returns what edits the lines that a person types; nil if the input or the output is not a terminal.
func (c *console) editor(asJSON bool) *prompt.Terminal {
	in, ok := c.in.(*os.File)
	if !ok || !c.typed || asJSON || !isTerminal(os.Stderr) || c.getenv("TERM") == "dumb" {
		return nil
	}
	return prompt.New(in, os.Stderr)
}

// Main runs the command line of the process and ends the process with its exit code.
func Main(extensions app.Extensions) {
	sandbox.Enter()
	os.Exit(run(context.Background(), os.Args[1:], &console{
		extensions: extensions,
		in:         os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv, signals: interrupts,
		terminal: isTerminal(os.Stdout) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", typed: isTerminal(os.Stdin),
	}))
}

// run returns the exit code.
func run(ctx context.Context, args []string, c *console) (code int) {
	var line commandLine
	exited := false
	parser, err := newParser(ctx, c, &line, func(int) { exited = true }) // after --help, parsing would continue
	if err != nil {
		panic(err) // the structs above are invalid
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	if args[0] == "help" {
		args = append(args[1:], "--help")
	}
	command, err := parser.Parse(args)
	if exited {
		return 0
	}
	if err != nil {
		return printError(c, err, exitUsage)
	}
	if err := command.Run(line.globals); err != nil {
		return printError(c, err, exitFailed)
	}
	return 0
}

func newParser(ctx context.Context, c *console, line *commandLine, exit func(int)) (*kong.Kong, error) {
	return kong.New(line, kong.Name("agentbus"), kong.Writers(c.out, c.err),
		kong.Description("Durable runs of AI agents, behind any frontend."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Exit(exit), kong.Help(printHelp),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.Bind(c),
	)
}

// printError prints an error and returns the exit code.
func printError(c *console, err error, code int) int {
	if !errors.Is(err, screen.ErrShown) {
		_, _ = io.WriteString(c.err, "agentbus: "+explain(err)+"\n") // an error of stderr cannot be reported
	}
	return code
}

// interrupts delivers the signals of Ctrl-C until stop is called.
func interrupts() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt)
	return signals, func() { signal.Stop(signals) }
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
