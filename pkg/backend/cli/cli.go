// Package cli is the backend for command-line agents: Claude Code, Codex, OpenCode, and any program that reads a prompt
// and prints an answer. Each turn runs the program once, in a folder and with the program's tools; the program's
// session keeps the conversation between the runs.
//
// Read program.go for the arguments of each program, process.go for how it is started and stopped, and package wire for
// its output.
package cli

import (
	"cmp"
	"context"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/cli/wire"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/backend/internal/program"
	"github.com/agentbus/agentbus/pkg/backend/internal/prompt"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
)

// maxPrompt limits a conversation in a prompt, in bytes; the newest part of a longer one is sent.
const maxPrompt = 512 << 10

// How long a program may print nothing before it counts as stuck. One that resumes a session reads that first.
const (
	DefaultQuiet       = 2 * time.Minute
	DefaultQuietResume = 5 * time.Minute
)

// Options configure the program (agentic, cli_config).
type Options struct {
	Command     string            // default: the program's own name
	Args        []string          // in addition to the program's default arguments
	Env         map[string]string // set for the program
	PassEnv     []string          // variables of this process to pass on, in addition to the defaults
	ClearEnv    []string          // and those that it does not get; "*" = none of the usual ones
	Workspace   string            // folder that it works in; "{thread}" stands for the thread's id
	Quiet       time.Duration     // default DefaultQuiet
	QuietResume time.Duration     // default DefaultQuietResume
	Permissions permission.Mode   // of Claude Code; default: its own settings decide, and it does not ask
	UnitCost    float64           // what a turn counts as, in US dollars, where the program does not say: of a subscription

	// Only for programs other than Claude Code, Codex and OpenCode.
	SessionMode SessionMode // default SessionExisting
	SessionArgs []string    // that resume a session; "{session}" stands for its id
	Output      Output      // default OutputText
	Fields      wire.Fields // of OutputRecords
}

// SessionMode is when a program gets the session's id.
type SessionMode string

// The session modes.
const (
	SessionExisting SessionMode = "existing" // once the program has named one
	SessionAlways   SessionMode = "always"   // from the first run on, by an id that is made for it
	SessionNone     SessionMode = "none"
)

// Output is the format of a program's output.
type Output string

// The formats.
const (
	OutputText    Output = "text"
	OutputRecords Output = "ndjson"
)

// Backend runs one program. It is safe for concurrent use.
type Backend struct {
	program agent
	options Options
}

var (
	_ backend.Backend       = (*Backend)(nil)
	_ backend.Availabler    = (*Backend)(nil)
	_ backend.CostEstimator = (*Backend)(nil)
	_ backend.Transporter   = (*Backend)(nil)
)

func newBackend(p agent, o Options) *Backend {
	o.Command = cmp.Or(o.Command, p.command)
	o.Quiet, o.QuietResume = cmp.Or(o.Quiet, DefaultQuiet), cmp.Or(o.QuietResume, DefaultQuietResume)
	return &Backend{program: p, options: o}
}

// Transport implements [backend.Transporter].
func (b *Backend) Transport() backend.Transport { return backend.LocalAgent }

// Available implements [backend.Availabler]: the program must be there.
func (b *Backend) Available(context.Context) error {
	_, err := b.binary().Find()
	return err
}

func (b *Backend) binary() program.Program {
	return program.Program{
		Name: b.program.name, Command: b.options.Command, Workspace: b.options.Workspace, Remedy: b.program.cure,
	}
}

// EstimateCost implements [backend.CostEstimator].
func (b *Backend) EstimateCost(o backend.Outcome) float64 {
	return cmp.Or(o.Usage.CostUSD, b.options.UnitCost)
}

// Start implements [backend.Backend]. Nothing runs before the first turn.
func (b *Backend) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	s, err := b.binary().Open(start)
	if err != nil {
		return nil, err
	}
	return &session{Session: s, backend: b}, nil
}

// session is a conversation with the program.
type session struct {
	program.Session

	backend *Backend
}

// Send implements [backend.Session]. If the program has lost the session, Send starts a new one.
func (s *session) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return backend.Outcome{}, err
	}
	if err := permitsOf(s.backend.options, turn.Options).check(s.backend); err != nil {
		return backend.Outcome{}, err
	}
	t := s.newTurn(turn, emit)
	outcome, err := t.run(ctx)
	if err != nil && t.gone && ctx.Err() == nil {
		lost := s.backend.program.name + " has lost its session; it gets the whole conversation again"
		if err := emit(backend.Warning(lost)); err != nil {
			return outcome, err
		}
		s.State = backend.State{}
		t = s.newTurn(turn, emit)
		outcome, err = t.run(ctx)
	}
	return outcome, err
}

// newTurn returns a run of the program for turn: a resumed session gets only the messages that it has not received.
func (s *session) newTurn(turn backend.Turn, emit backend.Emit) *run {
	b := s.backend
	known := turn.Known
	r := &run{session: s, emit: emit, model: turn.Model, limits: turn.Limits, resumes: s.State.ID != "", quiet: b.options.QuietResume}
	if !r.resumes {
		known, r.quiet = 0, b.options.Quiet
		if b.options.SessionMode == SessionAlways {
			s.State.ID = id.UUID()
		}
	}
	ask := ask{
		Session: s.State, Resumes: r.resumes, Model: turn.Model, System: turn.System, Limits: turn.Limits,
		Prompt: prompt.Of(permission.Conversation(turn.Messages, known), maxPrompt), Permits: permitsOf(b.options, turn.Options),
	}
	r.args, r.stdin = b.program.tell(b.options, ask)
	if b.program.asks != nil && b.program.asks(b.options, ask) {
		r.dialog = newDialog(r.stdin, permission.Of(turn.Messages))
	}
	r.decoder = b.program.decoder(b.options)
	return r
}

// used returns the usage of a run. Report has either that, or the total of its session.
func (s *session) used(report wire.Report) event.Usage {
	total := report.Used
	if !report.Total {
		s.State.Used = s.State.Used.Add(total)
		return total
	}
	before := s.State.Used
	s.State.Used = total
	if total.CostUSD < before.CostUSD || total.InputTokens < before.InputTokens || total.OutputTokens < before.OutputTokens {
		return total // the program has reset its count
	}
	return total.Sub(before)
}
