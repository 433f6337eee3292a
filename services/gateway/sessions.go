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
	"github.com/agentbus/agentbus/services/gateway/internal/dialect/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/frontend"
	"github.com/agentbus/agentbus/services/gateway/internal/sessions"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/agentbus/agentbus/services/gateway/internal/workspace"
)

// speech is Tarko's dialect on the routes of its server.
func speech() sessions.Speech {
	return sessions.Speech{
		Query:           tarko.Dialect{},
		Protocol:        tarko.Dialect{Vocabulary: words.Nested},
		Session:         tarko.Dialect{Framing: tarko.Session},
		SessionProtocol: tarko.Dialect{Framing: tarko.Session, Vocabulary: words.Nested},
		Message:         tarko.Dialect{Framing: tarko.Messages},
		MessageProtocol: tarko.Dialect{Framing: tarko.Messages, Vocabulary: words.Nested},
	}
}

// newSessions returns the routes of Tarko's server, and of the page in front of them.
func newSessions(d Deps, guard *authz.Guard, desk *admission.Desk, logs *stream.Logs) ([]api.Mount, error) {
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
	provider, err := sessions.NewProvider(d.Config.Gateway.Sessions.Share)
	if err != nil {
		return nil, fmt.Errorf("gateway.sessions.share: %w", err)
	}
	s, err := sessions.New(sessions.Deps{
		Bus: d.Bus, History: d.History, Guard: guard, Desk: desk, Logs: logs, Speech: speech(), Workspaces: folders,
		Provider: provider, Page: page, Config: d.Config, Build: build(),
	})
	if err != nil {
		return nil, err
	}
	return []api.Mount{s.Mount(tarko.Dialect{}), page.Mount(tarko.Dialect{})}, nil
}

// build is which program this is, as far as its build tells.
func build() sessions.Build {
	b := sessions.Build{Version: service.Version}
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
