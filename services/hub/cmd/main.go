// Command hub is the hub as a process. Its environment is env.Hub.
package main

import (
	"context"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/services/hub"
)

func main() { app.Main("hub", build) }

func build(ctx context.Context, p *app.Platform, e env.Hub) (service.Parts, error) {
	cfg, err := p.Config(config.Known{})
	if err != nil {
		return service.Parts{}, err
	}
	required, err := e.Auth.Required(e.HTTPAddr)
	if err != nil {
		return service.Parts{}, err
	}
	if !required {
		p.Log.Warn("authentication is off: anyone who reaches the hub may use it", "addr", e.HTTPAddr)
	}
	var o *hub.Hub
	err = p.AwaitDatabase(ctx, func(ctx context.Context) (err error) {
		o, err = hub.New(ctx, hub.Deps{
			Bus: p.Bus, DatabaseURL: e.DatabaseURL.Reveal(), Secret: []byte(e.HubSecret.Reveal()), Config: cfg, Log: p.Log,
			AuthRequired: required, Pepper: []byte(e.KeyPepper.Reveal()),
		})
		return err
	})
	if err != nil {
		return service.Parts{}, err
	}
	http, _, err := app.Serve(ctx, o.Server(e.HTTPAddr), o.Limit, o.Drain)
	return service.Parts{
		Actors: []service.Actor{{Name: "hub", Run: o.Run}, http},
		Checks: []service.Check{{Name: "hub", Ready: o.Ready}},
	}, err
}
