// Package command makes tools of programs: each call is a process in a sandbox, with the model's arguments at the
// places that an operator has defined. There is no shell: an argument is passed as one argument, whatever it contains.
package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/sandbox"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/internal/eventline"
	"github.com/agentbus/agentbus/pkg/tool/internal/template"
)

const (
	// Timeout is the default time limit of a call.
	Timeout = time.Minute
	// MaxOutput is the default limit of the output that the model reads.
	MaxOutput = 64 << 10
	// maxArgs bounds all arguments together: the kernel takes a little more.
	maxArgs = 100 << 10
	// probeTime is how long a sandbox may take to show that it can be had.
	probeTime = 10 * time.Second
)

// Program describes the processes of a tool. For the texts see [template.Parse].
type Program struct {
	Argv       []string // an item whose argument is missing is left out
	Stdin      string
	Env        map[string]string // of secrets and literals, not of arguments
	Sandbox    sandbox.Policy
	Events     bool // lines of its output that begin with "::event " are events, and not part of the result
	BestEffort bool // run it with limits and what else the kernel offers where it refuses some of the sandbox
}

// New returns the tool that spec describes, and what holds its programs. It starts a sandbox to find that out. An error says
// what is wrong with the description, or what the system refuses.
func New(spec tool.Spec, program Program, secrets template.Secrets) (tool.Tool, sandbox.Report, error) {
	p, err := prepare(program, secrets)
	if err != nil {
		return nil, sandbox.Report{}, err
	}
	if spec.MaxOutput == 0 {
		spec.MaxOutput = MaxOutput
	}
	p.spec, p.events = spec, program.Events
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	enforced, err := p.policy.Probe(ctx, program.Argv[0])
	if err == nil {
		return tool.Func(spec, p.call), enforced, nil
	}
	if !program.BestEffort {
		return nil, enforced, fmt.Errorf(
			"%w; allow it, or set isolation: best-effort to run the program with the isolation that this system supports", err)
	}
	for _, p.policy = range weaker(p.policy) {
		var missing error
		if enforced, missing = p.policy.Probe(ctx, program.Argv[0]); missing == nil {
			slog.WarnContext(ctx, "a tool runs its program without all of the isolation", "tool", spec.Name, "why", err)
			return tool.Func(spec, p.call), enforced, nil
		}
		err = missing
	}
	return nil, enforced, err
}

// weaker lists what to fall back to where the system refuses a policy, the strongest first.
func weaker(p sandbox.Policy) []sandbox.Policy {
	bare, noCgroup, neither := p, p, p
	bare.Bare, noCgroup.Cgroup = true, ""
	neither.Bare, neither.Cgroup = true, ""
	if p.Cgroup == "" {
		return []sandbox.Policy{bare}
	}
	return []sandbox.Policy{noCgroup, bare, neither}
}

// prepared is a [Program] whose texts have been read.
type prepared struct {
	spec    tool.Spec
	argv    []template.Text
	options int // index of the "--" that ends the options; the length of argv without one
	stdin   template.Text
	context []string // names of the values of the request's context that have places
	environ []string
	policy  sandbox.Policy
	events  bool // see Program
}

func prepare(program Program, secrets template.Secrets) (*prepared, error) {
	p := &prepared{policy: program.Sandbox, options: len(program.Argv)}
	for i, text := range program.Argv {
		t, err := template.Parse(text, secrets)
		if err != nil {
			return nil, fmt.Errorf("argv[%d]: %w", i, err)
		}
		if text == "--" {
			p.options = min(p.options, i)
		}
		p.argv = append(p.argv, t)
	}
	var err error
	if p.stdin, err = template.Parse(program.Stdin, secrets); err != nil {
		return nil, fmt.Errorf("stdin: %w", err)
	}
	p.context = template.ContextNames(append([]template.Text{p.stdin}, p.argv...)...)
	p.environ = []string{"PATH=" + sandbox.Path, "HOME=/tmp", "LANG=C.UTF-8"}
	for _, name := range slices.Sorted(maps.Keys(program.Env)) {
		t, err := template.Parse(program.Env[name], secrets)
		if err != nil {
			return nil, fmt.Errorf("env.%s: %w", name, err)
		}
		value, err := t.Fill(nil, template.Plain)
		if err != nil {
			return nil, fmt.Errorf("env.%s: arguments of the model have no place here", name)
		}
		p.environ = append(p.environ, name+"="+value)
	}
	return p, nil
}

func (p *prepared) call(ctx context.Context, args template.Args, call tool.Call) (tool.Result, error) {
	args = args.With(call.Context, p.context)
	argv, err := p.fill(args)
	if err != nil {
		return tool.Result{}, err
	}
	cmd, err := p.policy.Command(ctx, argv, p.environ)
	if err != nil {
		return tool.Result{}, err
	}
	if len(p.stdin.Missing(args)) == 0 {
		text, err := p.stdin.Fill(args, template.Plain)
		if err != nil {
			return tool.Result{}, err
		}
		cmd.Stdin = strings.NewReader(text)
	}
	printed := &printed{room: p.spec.MaxOutput, progress: call.Progress}
	lines := &eventline.Writer{Next: printed, Emit: call.Show}
	cmd.Stdout, cmd.Stderr = printed, printed
	if p.events {
		cmd.Stdout, cmd.Stderr = lines, lines
	}
	err = cmd.Run()
	_ = lines.Flush() // printed never fails
	if ctx.Err() != nil {
		return tool.Result{}, ctx.Err()
	}
	if sandbox.Failed(err, printed.text) {
		return tool.Result{}, fmt.Errorf("sandbox of %s: %s", p.spec.Name, sandbox.Reason(err, printed.text))
	}
	exit, ended := errors.AsType[*exec.ExitError](err)
	if err != nil && !ended && !errors.Is(err, exec.ErrWaitDelay) {
		return tool.Result{}, err
	}
	result := printed.result(exit)
	result.Events = lines.Events
	return result, nil
}

// fill returns the arguments of a call. Text of the model never becomes an option: it must follow a "--", or the
// beginning of an item.
func (p *prepared) fill(args template.Args) ([]string, error) {
	var argv []string
	size := 0
	for i, t := range p.argv {
		if len(t.Missing(args)) > 0 {
			continue
		}
		text, err := t.Fill(args, template.Plain)
		if err != nil {
			return nil, err
		}
		if name, opens := t.Opening(); opens && i < p.options && strings.HasPrefix(text, "-") {
			return nil, apierr.New(apierr.ToolError, "the argument %q must not begin with a dash", name)
		}
		if strings.ContainsRune(text, 0) {
			return nil, apierr.New(apierr.ToolError, "the arguments %q must not contain a null character", t.Arguments())
		}
		if size += len(text); size > maxArgs {
			return nil, apierr.New(apierr.ToolError, "the arguments are longer than the %d bytes that a program takes", maxArgs)
		}
		argv = append(argv, text)
	}
	return argv, nil
}
