// Package tarko answers the routes of Tarko's server: those of S0.D and those that its own clients really use. A
// session is a thread and a query is a request, so that whatever is done here is seen through every other dialect.
//
// Read routes.go for the list, session.go for what a session is, and query.go for what happens to a query.
package tarko

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/frontend"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/workspace"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// Deps are what sessions are answered from. Every member is needed, except where it says otherwise.
type Deps struct {
	Bus        *bus.Bus
	History    historyapi.Client
	Guard      *authz.Guard
	Acceptor   *admission.Acceptor
	Logs       *stream.Logs
	Encodings  Encodings
	Workspaces map[string]*workspace.Workspace // by tenant
	Provider   *Provider                       // that shows pages; nil = there is none
	Page       *frontend.Page                  // that shares are shown with; nil = a plain one
	Config     config.Config
	Build      Build
}

// Server answers for all sessions. It is safe for concurrent use.
type Server struct {
	Deps
	agents []string // by name
	agent  string   // of a session that names none
}

// New returns sessions. An agent that the configuration names and does not have is an error.
func New(d Deps) (*Server, error) {
	s := &Server{Deps: d, agents: slices.Sorted(maps.Keys(d.Config.Agents))}
	s.agent = cmp.Or(d.Config.Gateway.Sessions.Agent, config.DefaultAgent)
	if _, ok := d.Config.Agents[s.agent]; !ok && d.Config.Gateway.Sessions.Agent != "" {
		return nil, fmt.Errorf("gateway.sessions.agent: there is no agent %q; use one of %v", s.agent, s.agents)
	}
	return s, nil
}
