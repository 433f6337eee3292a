package command

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/inspect"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

type inspectCommand struct {
	ID       string   `arg:"" name:"request|thread" help:"Id of a request or of a thread."`
	Format   string   `enum:"native,tarko,protocol" default:"native" help:"native, tarko (as its server sends), protocol (as it documents)."`
	Type     []string `help:"Only events of these types, separated by commas."`
	Since    moment   `help:"Only events from this time on: 2026-01-31T12:00:00Z, or 10m for ten minutes ago."`
	Until    moment   `help:"Only events before this time."`
	Limit    uint     `help:"Only so many, the last ones."`
	Stats    bool     `xor:"how" help:"Count the events by type instead of showing them."`
	Output   string   `short:"o" xor:"how" type:"path" help:"Write the events to this file, as a JSON array."`
	Validate bool     `help:"Check every event against the schemas instead of showing it; exit with 1 if one does not fit."`
}

func (cmd *inspectCommand) Run(ctx context.Context, g globals, c *console) error {
	ctx, stop := service.Signals(ctx)
	defer stop()
	filter := eventstream.Of(cmd.Type...)
	filter.Since, filter.Until = cmd.Since.Time, cmd.Until.Time
	return inspect.Run(ctx, inspect.Options{
		Client: g.client(), ID: cmd.ID, Format: inspect.Format(cmd.Format), Filter: filter, Last: int(min(cmd.Limit, math.MaxInt32)),
		Stats: cmd.Stats, Output: cmd.Output, Validate: cmd.Validate, JSON: g.JSON,
	}, c.out, c.err)
}

// moment is a time on the command line.
type moment struct{ time.Time }

// UnmarshalText parses a time, or a duration before now.
func (m *moment) UnmarshalText(text []byte) error {
	if ago, err := time.ParseDuration(string(text)); err == nil {
		m.Time = time.Now().Add(-ago)
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("%q is not a time: write one such as 2026-01-31T12:00:00Z, or 10m for ten minutes ago", text)
	}
	m.Time = at
	return nil
}
