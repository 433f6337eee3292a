package dev

import (
	"context"
	"net/http"
	"strings"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/sqldb"
	"github.com/agentbus/agentbus/services/hub"
)

// allowPrivate lets the hub connect to agents on this machine and in private networks, where a developer's agents run.
func allowPrivate() config.Hub {
	return config.Hub{
		PlainHTTP: true,
		Allow:     []string{"127.0.0.0/8", "::1", "localhost", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"},
	}
}

// credentials opens the keys that the gateway and the hub share.
func (s *stack) credentials(ctx context.Context, _ config.Config) ([]service.Actor, error) {
	if !s.options.Auth {
		return nil, nil
	}
	b, err := s.connect(ctx, "keys")
	if err != nil {
		return nil, err
	}
	s.keys, err = s.openCredentials(ctx, b)
	return nil, err
}

func (s *stack) startHub(ctx context.Context, cfg config.Config) ([]service.Actor, error) {
	b, err := s.connect(ctx, "hub")
	if err != nil {
		return nil, err
	}
	secret, err := s.secret(s.options.Getenv("HUB_SECRET"), HubSecretFile)
	if err != nil {
		return nil, err
	}
	o, err := hub.New(ctx, hub.Deps{
		Bus: b, DatabaseURL: s.hubDatabase(), Secret: secret, Config: cfg, Log: s.log("hub"),
		AuthRequired: s.options.Auth, Pepper: s.keys.pepper,
	})
	if err != nil {
		return nil, err
	}
	s.hub, s.drainHub = o.Handler(), o.Drain
	return []service.Actor{{Name: "hub", Run: o.Run}}, nil
}

// hubDatabase returns the database of the hub: history's if that is PostgreSQL.
func (s *stack) hubDatabase() string {
	if strings.HasPrefix(s.options.Database, "postgres") {
		return s.options.Database
	}
	if s.options.Data != "" {
		return "sqlite:" + s.data.File("hub.db")
	}
	return sqldb.Memory
}

// serveHub serves the hub's paths at the address of the gateway.
func (s *stack) serveHub(gateway http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/mcp" || r.URL.Path == "/api/agents" || strings.HasPrefix(r.URL.Path, "/api/agents/") {
			s.hub.ServeHTTP(w, r)
			return
		}
		gateway.ServeHTTP(w, r)
	})
}
