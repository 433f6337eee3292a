// Package tarko is the protocol of Tarko's server (Agent TARS): the routes of its documentation, further routes that
// its published clients use, its WebSocket, and its web page. A session is a thread and a query is a request, so
// clients of other protocols see the same events.
//
// Read routes.go for the routes, session.go for sessions and query.go for queries. The codec is in package wire.
package tarko

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/agentbus/agentbus/pkg/config"
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/frontend"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/workspace"
)

// Server serves the protocol. It is safe for concurrent use.
type Server struct {
	protocol.Services
	encodings  encodings
	workspaces map[string]*workspace.Workspace // by tenant
	provider   *Provider                       // uploads shared pages; nil = sharing is not configured
	page       *frontend.Page                  // the web page, which shared pages embed; nil = none is configured
	build      build
	agents     []string // names of the configured agents, sorted
	agent      string   // the default agent
}

var _ protocol.Protocol = (*Server)(nil)

// New returns the protocol on the services of the gateway. It fails on an invalid configuration.
func New(services protocol.Services) (*Server, error) {
	c := services.Config.Gateway.Sessions
	s := &Server{
		Services: services, encodings: newEncodings(), workspaces: map[string]*workspace.Workspace{}, build: readBuild(),
		agents: slices.Sorted(maps.Keys(services.Config.Agents)), agent: cmp.Or(c.Agent, config.DefaultAgent),
	}
	for tenant, dir := range c.Workspaces {
		folder, err := workspace.Open(dir)
		if err != nil {
			return nil, fmt.Errorf("gateway.sessions.workspaces.%s: %w", tenant, err)
		}
		s.workspaces[tenant] = folder
	}
	var err error
	if s.page, err = frontend.Open(c.UI); err != nil {
		return nil, fmt.Errorf("gateway.sessions.ui: %w", err)
	}
	if s.provider, err = NewProvider(c.Share); err != nil {
		return nil, fmt.Errorf("gateway.sessions.share: %w", err)
	}
	if _, ok := services.Config.Agents[s.agent]; !ok && c.Agent != "" {
		return nil, fmt.Errorf("gateway.sessions.agent: agent %q does not exist; use one of %v", s.agent, s.agents)
	}
	return s, nil
}

// encodings are the codecs of the routes.
type encodings struct {
	query          codec.Codec // the stream of one query: flat events, as Tarko's server sends them
	queryNested    codec.Codec // with format=protocol: nested events, as Tarko's protocol describes them
	messages       codec.Codec // the messages of a WebSocket
	messagesNested codec.Codec
}

func newEncodings() encodings {
	return encodings{
		query:          wire.Codec{},
		queryNested:    wire.Codec{Vocabulary: words.Nested},
		messages:       wire.Codec{Framing: wire.Messages},
		messagesNested: wire.Codec{Framing: wire.Messages, Vocabulary: words.Nested},
	}
}

// formatProtocol selects the nested events of Tarko's protocol instead of the flat ones that its server sends.
const formatProtocol = "protocol"

// choose returns the codec of the format that the client selects.
func choose(x *protocol.Exchange, flat, nested codec.Codec) (codec.Codec, error) {
	wants, err := wantsNested(x)
	if wants {
		return nested, err
	}
	return flat, err
}

func wantsNested(x *protocol.Exchange) (bool, error) {
	switch format := x.Query().Get("format"); format {
	case "", "flat":
		return false, nil
	case formatProtocol:
		return true, nil
	default:
		return false, invalid("format=%.40q: use protocol or flat, or leave it out", format)
	}
}
