// Package program prepares the programs that backends run: the folder that they work in, their environment, their process
// group, and what their standard error says. Package [procgroup] ends them.
package program

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/procgroup"
)

// Program is a program that a backend runs.
type Program struct {
	Name      string // in errors
	Command   string
	Remedy    string // ends the error of a command that is not installed
	Workspace string // folder that it works in; "{thread}" stands for the id of the thread, whose folder is made if it does not exist
}

// Find returns the path of the command.
func (p Program) Find() (string, error) {
	path, err := exec.LookPath(p.Command)
	if err != nil {
		return "", apierr.Wrap(err, apierr.AgentError, "program %q not found on this machine; %s", p.Command, p.Remedy)
	}
	return filepath.Abs(path)
}

// Session is a conversation with a program. Between turns nothing of it runs.
type Session struct {
	Path   string // of the command
	Dir    string // that it works in
	Thread string
	State  backend.State
}

// Open returns a session. It starts nothing.
func (p Program) Open(start backend.Start) (Session, error) {
	path, err := p.Find()
	if err != nil {
		return Session{}, err
	}
	dir, err := p.folder(start)
	return Session{Path: path, Dir: dir, Thread: start.ThreadID, State: start.State}, err
}

// Stop implements [backend.Session].
func (*Session) Stop(context.Context) error { return nil }

func (p Program) folder(start backend.Start) (string, error) {
	dir := cmp.Or(start.Workspace, strings.ReplaceAll(p.Workspace, "{thread}", start.ThreadID))
	if dir == "" {
		return "", apierr.New(apierr.AgentError, "%s has no folder to work in; give the agent a workspace", p.Name)
	}
	if start.Workspace == "" && strings.Contains(p.Workspace, "{thread}") {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return "", apierr.Wrap(err, apierr.AgentError, "the folder of the thread could not be made; look at the agent's workspace")
		}
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return "", apierr.Wrap(err, apierr.AgentError, "the folder that %s works in is not there; make it, or change the agent's workspace", p.Name)
	}
	return filepath.Abs(dir)
}

// lockWait is how long a program waits for another one that works in the same session.
const lockWait = 15 * time.Second

// Group returns a process group for a program, which ends with this process. A program of a runner that has just died may
// still run for a moment: two at a time must not work on what alone names.
func Group(ctx context.Context, alone ...string) (*procgroup.Group, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	lock, err := procgroup.Acquire(ctx, alone...)
	if err != nil {
		return nil, err
	}
	return procgroup.New(lock)
}

// Variables say what the environment of a program is.
type Variables struct {
	Own   []string          // prefixes of the program's own variables
	Pass  []string          // names of variables of this process, in addition to the usual ones
	Clear []string          // names of those that it does not get; "*" = none of the usual ones
	Set   map[string]string // set for the program
}

// usual are the variables that every program gets: where things are, and how to reach the network. Of ours, which hold
// secrets of this process, it gets none.
func usual() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM",
		"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "SystemRoot", "PATHEXT", "APPDATA", "USERPROFILE",
	}
}

// Environment is what the program gets: the usual variables and its own, and those that v sets.
func Environment(v Variables) []string {
	common := usual()
	passes := func(name string) bool {
		switch {
		case slices.Contains(v.Pass, name):
			return true
		case slices.Contains(v.Clear, "*") || slices.Contains(v.Clear, name):
			return false
		default:
			return slices.Contains(common, name) || slices.ContainsFunc(v.Own, func(start string) bool { return strings.HasPrefix(name, start) })
		}
	}
	env := []string{"NO_COLOR=1"}
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); passes(name) {
			env = append(env, pair)
		}
	}
	for name, value := range v.Set {
		env = append(env, name+"="+value)
	}
	return env
}
