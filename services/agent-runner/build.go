package agentrunner

import (
	"context"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
)

// Build returns a function that builds the service as a process, with the backends and tools of the program.
func Build(x app.Extensions) app.Build[env.AgentRunner] {
	return func(_ context.Context, p *app.Platform, e env.AgentRunner) (service.Parts, error) {
		cfg, err := p.Config(x.Known())
		if err != nil {
			return service.Parts{}, err
		}
		backends, err := Backends(cfg, p.Environ.Get, x.Backends)
		if err != nil {
			return service.Parts{}, err
		}
		rediscache.LogTo(p.Log)
		store, err := rediscache.Open(e.RedisURL.Reveal())
		if err != nil {
			return service.Parts{}, err
		}
		r, err := New(Deps{
			Bus: BusOf(p.Bus), History: historyapi.NewClient(p.Bus), Actions: store, Config: cfg,
			Specs: p.Specs(builtin.WithHub(cfg, builtin.Specs(cfg, x.Tools...))), Backends: backends, Hub: hubapi.NewClient(p.Bus),
			Log: p.Log, Slots: e.Slots, Build: service.Version(), Grace: e.ActorGrace(),
		})
		if err != nil {
			return service.Parts{}, err
		}
		return service.Parts{Actors: []service.Actor{{Name: "runner", Run: r.Run}}, Close: func() { _ = store.Close() }}, nil
	}
}
