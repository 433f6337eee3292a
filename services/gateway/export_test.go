package gateway

import "github.com/agentbus/agentbus/services/gateway/internal/protocol"

// Routes lists what the gateway serves, as "GET /v1/threads/:threadId".
func (g *Gateway) Routes() []string {
	var all []string
	for _, r := range g.api.Routes() {
		all = append(all, r.Method+" "+r.Path)
	}
	return all
}

// Protocols lists the protocols that the gateway serves.
func (g *Gateway) Protocols() []protocol.Protocol { return g.api.Protocols }
