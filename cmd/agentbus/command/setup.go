package command

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/dev"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/starter"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

type initCommand struct {
	Dir string `arg:"" optional:"" default:"." help:"Folder of the files."`
}

func (cmd *initCommand) Run(g globals, c *console) error {
	python := "python3"
	if runtime.GOOS == "windows" {
		python = "python"
	}
	if err := starter.Write(cmd.Dir, python); err != nil {
		return err
	}
	var paths []string
	for _, name := range starter.Names() {
		paths = append(paths, filepath.Join(cmd.Dir, name))
	}
	if g.JSON {
		return line(c.out, map[string]any{"files": paths})
	}
	self, configured := program(), ""
	if paths[0] != starter.Config {
		configured = " --config " + paths[0]
	}
	_, err := fmt.Fprintf(c.out, "wrote %s\n\nTry:\n\n  %s check %s\n  %s dev%s\n\nand in another terminal:\n\n  %s chat hello\n  %s run reporter go\n",
		strings.Join(paths, " and "), self, paths[0], self, configured, self, self)
	return err
}

// program returns how a user can start this program again: its name if the shell finds it, `go run` if that has built it, else
// its path.
func program() string {
	path, err := os.Executable()
	if err != nil {
		return "agentbus"
	}
	name := filepath.Base(path)
	if found, err := exec.LookPath(name); err == nil && sameFile(found, path) {
		return name
	}
	temporary := filepath.Base(filepath.Dir(path)) == "exe" && strings.Contains(path, "go-build")
	if info, ok := debug.ReadBuildInfo(); ok && temporary && strings.Contains(info.Path, "/") {
		return "go run " + info.Path
	}
	if folder, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(folder, path); err == nil && !strings.HasPrefix(relative, "..") {
			return "." + string(filepath.Separator) + relative
		}
	}
	return path
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

type checkCommand struct {
	File  string `arg:"" optional:"" default:"agentbus.yaml" help:"Configuration file."`
	NoEnv bool   `name:"no-env" help:"Do not look for secrets and programs on this machine."`
}

// checked is the result as JSON, one for each mistake; or one without a message.
type checked struct {
	File    string   `json:"file"`
	Line    int      `json:"line,omitzero"`
	Column  int      `json:"column,omitzero"`
	Path    string   `json:"path,omitzero"`
	Message string   `json:"message,omitzero"`
	Agents  []string `json:"agents,omitempty"`
	Tools   []string `json:"tools,omitempty"`
}

func (cmd *checkCommand) Run(g globals, c *console) error {
	cfg, err := cmd.load(c)
	if err != nil {
		return cmd.report(g, c, err)
	}
	agents, tools := slices.Sorted(maps.Keys(cfg.Agents)), slices.Sorted(maps.Keys(cfg.Tools))
	if g.JSON {
		return line(c.out, checked{File: cmd.File, Agents: agents, Tools: tools})
	}
	_, err = fmt.Fprintf(c.out, "%s: no mistakes\n  agents  %s\n  tools   %s\n", cmd.File,
		cmp.Or(strings.Join(agents, ", "), "-"), cmp.Or(strings.Join(tools, ", "), "-"))
	return err
}

// load reads the file, and opens what the services open with it.
func (cmd *checkCommand) load(c *console) (config.Config, error) {
	known := dev.Known(c.extensions, c.getenv)
	if cmd.NoEnv {
		known.Secret = nil
	}
	cfg, err := config.Load(cmd.File, config.Default(c.getenv), known)
	if err != nil || cmd.NoEnv {
		return cfg, err
	}
	streams, err := env.Load[env.Streams](env.Environ{"NATS_MAX_AGE": c.getenv("NATS_MAX_AGE")})
	if err != nil {
		return cfg, err
	}
	_, toolErr := builtin.Tools(cfg, env.Secrets(c.getenv), c.extensions.Tools...)
	_, backendErr := agentrunner.Backends(cfg, c.getenv, c.extensions.Backends)
	if err := errors.Join(cfg.FitsRetention(streams.MaxAge), toolErr, backendErr); err != nil {
		return cfg, fmt.Errorf("%s: %w", cmd.File, err)
	}
	return cfg, nil
}

// report prints each mistake on its own line.
func (cmd *checkCommand) report(g globals, c *console, err error) error {
	mistakes, ok := errors.AsType[config.Mistakes](err)
	if !g.JSON && !ok {
		return err
	}
	if !g.JSON {
		_, _ = fmt.Fprintf(c.err, "%s\n%d mistakes\n", screen.Clean(mistakes.Error()), len(mistakes)) // the exit code says it too
		return screen.ErrShown
	}
	if !ok {
		mistakes = config.Mistakes{{File: cmd.File, What: err.Error()}}
	}
	for _, m := range mistakes {
		if err := line(c.out, checked{File: m.File, Line: m.Line, Column: m.Column, Path: m.Path, Message: m.What}); err != nil {
			return err
		}
	}
	return screen.ErrShown
}
