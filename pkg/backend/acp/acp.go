// Package acp is the backend for programs that speak the Agent Client Protocol, such as Gemini CLI and goose. Each turn
// runs the program once, in a folder and with the program's tools; the program's session keeps the conversation between
// the runs.
//
// Read session.go for a run, dialog.go for its requests to the program, update.go for the program's reports, permission.go
// for its questions.
package acp

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/backend/internal/program"
)

// How long a program may say nothing before it counts as stuck. One that resumes a session reads that first.
const (
	DefaultQuiet       = 2 * time.Minute
	DefaultQuietResume = 5 * time.Minute
)

// Options configure the program.
type Options struct {
	Command     string
	Args        []string
	Env         map[string]string // set for the program
	PassEnv     []string          // variables of this process to pass on, in addition to the defaults
	ClearEnv    []string          // and those that it does not get; "*" = none of the usual ones
	Workspace   string            // folder that it works in; "{thread}" stands for the thread's id
	Auth        string            // id of the way to authenticate; "" = the program needs none
	Permissions permission.Mode   // default permission.Ask
	Quiet       time.Duration     // default DefaultQuiet
	QuietResume time.Duration     // default DefaultQuietResume
	UnitCost    float64           // what a turn counts as, in US dollars, where the program does not say: of a subscription
}

// Backend runs one program. It is safe for concurrent use.
type Backend struct{ options Options }

var (
	_ backend.Backend       = (*Backend)(nil)
	_ backend.Availabler    = (*Backend)(nil)
	_ backend.CostEstimator = (*Backend)(nil)
	_ backend.Transporter   = (*Backend)(nil)
)

// New returns the backend of a program.
func New(o Options) *Backend {
	o.Quiet, o.QuietResume = cmp.Or(o.Quiet, DefaultQuiet), cmp.Or(o.QuietResume, DefaultQuietResume)
	o.Permissions = cmp.Or(o.Permissions, permission.Ask)
	return &Backend{o}
}

// Transport implements [backend.Transporter].
func (b *Backend) Transport() backend.Transport { return backend.ACP }

// Available implements [backend.Availabler]: the program must be installed.
func (b *Backend) Available(context.Context) error {
	_, err := b.binary().Find()
	return err
}

func (b *Backend) binary() program.Program {
	return program.Program{
		Name: b.name(), Command: b.options.Command, Workspace: b.options.Workspace,
		Remedy: "install it, or give the agent the command that runs it",
	}
}

// EstimateCost implements [backend.CostEstimator].
func (b *Backend) EstimateCost(o backend.Outcome) float64 {
	return cmp.Or(o.Usage.CostUSD, b.options.UnitCost)
}

// name names the program in messages.
func (b *Backend) name() string { return filepath.Base(b.options.Command) }

// Start implements [backend.Backend]. Nothing runs before the first turn.
func (b *Backend) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	s, err := b.binary().Open(start)
	if err != nil {
		return nil, err
	}
	return &session{Session: s, backend: b}, nil
}
