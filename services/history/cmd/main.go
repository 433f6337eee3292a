// Command history is history as a process. Its environment is env.History.
package main

import (
	"context"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/services/history"
)

func main() {
	lowerPriority()
	app.Main("history", build)
}

func build(ctx context.Context, p *app.Platform, e env.History) (service.Parts, error) {
	var h *history.History
	err := p.AwaitDatabase(ctx, func(ctx context.Context) (err error) {
		h, err = history.New(ctx, history.Deps{Bus: history.BusOf(p.Bus), DatabaseURL: e.DatabaseURL.Reveal(), Log: p.Log})
		return err
	})
	if err != nil {
		return service.Parts{}, err
	}
	return service.Parts{
		Actors: []service.Actor{{Name: "history", Run: h.Run}},
		Checks: []service.Check{{Name: "database", Ready: h.Ready}},
	}, nil
}
