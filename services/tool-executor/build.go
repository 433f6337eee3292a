package toolexecutor

import (
	"context"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
)

// Build returns a function that builds the service as a process, with the tools of the program.
func Build(x app.Extensions) app.Build[env.ToolExecutor] {
	return func(_ context.Context, p *app.Platform, e env.ToolExecutor) (service.Parts, error) {
		cfg, err := p.Config(config.Known{Tools: x.Known().Tools})
		if err != nil {
			return service.Parts{}, err
		}
		executor, err := New(Deps{
			Bus: BusOf(p.Bus), History: historyapi.NewClient(p.Bus), Config: cfg, Added: x.Tools,
			Tools: append(builtin.HubTools(cfg, hubapi.NewClient(p.Bus)), p.Tools()...), Secret: env.Secrets(p.Environ.Get),
			Log: p.Log, Slots: e.Slots, Grace: e.ActorGrace(),
		})
		if err != nil {
			return service.Parts{}, err
		}
		return service.Parts{Actors: []service.Actor{{Name: "executor", Run: executor.Run}}}, nil
	}
}
