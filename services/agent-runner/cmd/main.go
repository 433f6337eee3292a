// Command agent-runner is the agent-runner as a process. Its environment is env.AgentRunner.
package main

import (
	"context"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
	agentrunner "github.com/agentbus/agentbus/services/agent-runner"
)

func main() { app.Main("agent-runner", build) }

func build(_ context.Context, p *app.Platform, e env.AgentRunner) (service.Parts, error) {
	cfg, err := p.Config(agentrunner.BackendNames()...)
	if err != nil {
		return service.Parts{}, err
	}
	backends, err := agentrunner.Backends(cfg, p.Environ.Get)
	if err != nil {
		return service.Parts{}, err
	}
	rediscache.LogTo(p.Log)
	store, err := rediscache.Open(e.RedisURL.Reveal())
	if err != nil {
		return service.Parts{}, err
	}
	r, err := agentrunner.New(agentrunner.Deps{
		Bus: agentrunner.BusOf(p.Bus), History: historyapi.NewClient(p.Bus), Actions: store, Config: cfg,
		Specs:    p.Specs(builtin.WithHub(cfg, builtin.Specs(cfg))),
		Backends: backends, Hub: hubapi.NewClient(p.Bus), Log: p.Log, Slots: e.Slots, Build: service.Version, Grace: e.ActorGrace(),
	})
	if err != nil {
		return service.Parts{}, err
	}
	return service.Parts{Actors: []service.Actor{{Name: "runner", Run: r.Run}}, Close: func() { _ = store.Close() }}, nil
}
