// Command gateway runs the gateway. Its environment is env.Gateway.
package main

import (
	"context"

	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/rediscache"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/services/gateway"
)

func main() { app.Main("gateway", build) }

func build(ctx context.Context, p *app.Platform, e env.Gateway) (service.Parts, error) {
	cfg, err := p.Config(config.Known{})
	if err != nil {
		return service.Parts{}, err
	}
	required, err := e.Auth.Required(e.HTTPAddr)
	if err != nil {
		return service.Parts{}, err
	}
	if !required {
		p.Log.Warn("authentication is off: anyone who reaches the gateway may use it", "addr", e.HTTPAddr)
	}
	rediscache.LogTo(p.Log)
	store, err := rediscache.Open(e.RedisURL.Reveal())
	if err != nil {
		return service.Parts{}, err
	}
	g, err := gateway.New(gateway.Deps{ //nolint:contextcheck // its handlers have contexts of their own
		Bus: p.Bus, History: historyapi.NewClient(p.Bus), State: store, Config: cfg, Log: p.Log,
		AuthRequired: required, Pepper: []byte(e.KeyPepper.Reveal()), Secret: env.Secrets(p.Environ.Get),
	})
	if err != nil {
		return service.Parts{}, err
	}
	server := g.Server(e.HTTPAddr)
	certificate, err := service.OpenCertificate(e.TLSCert, e.TLSKey)
	if err != nil {
		return service.Parts{}, err
	}
	if certificate != nil {
		server.TLSConfig = certificate.Config()
	}
	http, _, err := app.Serve(ctx, server, g.Limit, g.Drain)
	keys := service.Actor{Name: "keys", Run: g.Run}
	return service.Parts{
		Actors: []service.Actor{keys, http},
		Checks: []service.Check{{Name: "streams", Ready: g.Backpressure}},
		Close:  func() { _ = store.Close() },
	}, err
}
