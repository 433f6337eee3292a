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

// known describes what this service reads of a configuration: no backends, and the secrets of tools.
func known(x app.Extensions, secret func(name string) (string, error)) config.Known {
	k := x.Known()
	k.Backends, k.Script = nil, nil
	k.Secret = func(name string) error {
		_, err := secret(name)
		return err
	}
	return k
}

// Build returns a function that builds the service as a process, with the tools of the program.
func Build(x app.Extensions) app.Build[env.ToolExecutor] {
	return func(_ context.Context, p *app.Platform, e env.ToolExecutor) (service.Parts, error) {
		cfg, err := p.Config(known(x, env.Secrets(p.Environ.Get)))
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
