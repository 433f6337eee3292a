// Command tool-executor is the tool-executor as a process. Its environment is env.ToolExecutor.
package main

import (
	"context"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/sandbox"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tool/builtin"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

func main() {
	sandbox.Enter()
	app.Main("tool-executor", build)
}

func build(_ context.Context, p *app.Platform, e env.ToolExecutor) (service.Parts, error) {
	cfg, err := p.Config()
	if err != nil {
		return service.Parts{}, err
	}
	x, err := toolexecutor.New(toolexecutor.Deps{
		Bus: toolexecutor.BusOf(p.Bus), History: historyapi.NewClient(p.Bus), Config: cfg,
		Tools:  append(builtin.HubTools(cfg, hubapi.NewClient(p.Bus)), p.Tools()...),
		Secret: env.Secrets(p.Environ.Get), Log: p.Log, Slots: e.Slots, Grace: e.ActorGrace(),
	})
	if err != nil {
		return service.Parts{}, err
	}
	return service.Parts{Actors: []service.Actor{{Name: "executor", Run: x.Run}}}, nil
}
