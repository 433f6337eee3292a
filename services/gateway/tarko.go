package gateway

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/agentbus/agentbus/pkg/service"
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/api"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/frontend"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/workspace"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// speech is Tarko's dialect on the routes of its server.
func speech() tarko.Encodings {
	return tarko.Encodings{
		Query:           wire.Codec{},
		Protocol:        wire.Codec{Vocabulary: words.Nested},
		Session:         wire.Codec{Framing: wire.Session},
		SessionProtocol: wire.Codec{Framing: wire.Session, Vocabulary: words.Nested},
		Message:         wire.Codec{Framing: wire.Messages},
		MessageProtocol: wire.Codec{Framing: wire.Messages, Vocabulary: words.Nested},
	}
}

// newSessions returns the routes of Tarko's server, and of the page in front of them.
func newSessions(d Deps, guard *authz.Guard, desk *admission.Acceptor, logs *stream.Logs) ([]api.Mount, error) {
	folders := map[string]*workspace.Workspace{}
	for tenant, dir := range d.Config.Gateway.Sessions.Workspaces {
		folder, err := workspace.Open(dir)
		if err != nil {
			return nil, fmt.Errorf("gateway.sessions.workspaces.%s: %w", tenant, err)
		}
		folders[tenant] = folder
	}
	page, err := frontend.Open(d.Config.Gateway.Sessions.UI)
	if err != nil {
		return nil, fmt.Errorf("gateway.sessions.ui: %w", err)
	}
	provider, err := tarko.NewProvider(d.Config.Gateway.Sessions.Share)
	if err != nil {
		return nil, fmt.Errorf("gateway.sessions.share: %w", err)
	}
	s, err := tarko.New(tarko.Deps{
		Bus: d.Bus, History: d.History, Guard: guard, Acceptor: desk, Logs: logs, Encodings: speech(), Workspaces: folders,
		Provider: provider, Page: page, Config: d.Config, Build: build(),
	})
	if err != nil {
		return nil, err
	}
	return []api.Mount{s.Mount(wire.Codec{}), page.Mount(wire.Codec{})}, nil
}

// build is which program this is, as far as its build tells.
func build() tarko.Build {
	b := tarko.Build{Version: service.Version}
	about, _ := debug.ReadBuildInfo()
	if about == nil {
		return b
	}
	for _, s := range about.Settings {
		switch s.Key {
		case "vcs.revision":
			b.GitHash = s.Value
		case "vcs.time":
			if at, err := time.Parse(time.RFC3339, s.Value); err == nil {
				b.BuildTime = at.UnixMilli()
			}
		}
	}
	return b
}
