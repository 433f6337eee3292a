package a2a

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
	"github.com/go-json-experiment/json"
)

// The extension of this server: what its data parts and its metadata mean.
const (
	extensionURI     = "https://github.com/agentbus/agentbus/blob/main/docs/a2a.md"
	extensionsHeader = "A2A-Extensions"
)

// card is an AgentCard.
type card struct {
	Name         string                    `json:"name"`
	Description  string                    `json:"description"`
	Version      string                    `json:"version"`
	Interfaces   []agentInterface          `json:"supportedInterfaces"`
	Capabilities capabilities              `json:"capabilities"`
	Schemes      map[string]securityScheme `json:"securitySchemes,omitempty"`
	Requirements []securityRequirement     `json:"securityRequirements,omitempty"`
	InputModes   []string                  `json:"defaultInputModes"`
	OutputModes  []string                  `json:"defaultOutputModes"`
	Skills       []skill                   `json:"skills"`
}

type agentInterface struct {
	URL     string `json:"url"`
	Binding string `json:"protocolBinding"`
	Version string `json:"protocolVersion"`
}

type capabilities struct {
	Streaming    bool        `json:"streaming"`
	Push         bool        `json:"pushNotifications"`
	ExtendedCard bool        `json:"extendedAgentCard"`
	Extensions   []extension `json:"extensions"`
}

type extension struct {
	URI         string `json:"uri"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

type securityScheme struct {
	HTTP httpScheme `json:"httpAuthSecurityScheme"`
}

type httpScheme struct {
	Scheme      string `json:"scheme"`
	Format      string `json:"bearerFormat"`
	Description string `json:"description"`
}

type securityRequirement struct {
	Schemes map[string]stringList `json:"schemes"`
}

type stringList struct {
	List []string `json:"list"`
}

type skill struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
}

// schemeName is the name of the security scheme in a card.
const schemeName = "apiKey"

// card returns the card of an agent. The public one does not describe what the agent can do.
func (s *Server) card(x *protocol.Exchange, agentID string, public bool) card {
	url := x.BaseURL() + "/a2a/" + agentID
	c := card{
		Name: agentID, Description: "The agent " + agentID + ". Its extended card describes it.", Version: wire.Version,
		Interfaces: []agentInterface{{url, "JSONRPC", wire.Version}, {url, "HTTP+JSON", wire.Version}},
		Capabilities: capabilities{
			Streaming: true, Push: true, ExtendedCard: true,
			Extensions: []extension{{URI: extensionURI, Description: "Progress, usage and the answers to questions, as data parts and metadata."}},
		},
		InputModes:  []string{"text/plain", "application/json", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"},
		OutputModes: []string{"text/plain", "application/json"},
	}
	if s.Keys != nil {
		c.Schemes = map[string]securityScheme{schemeName: {httpScheme{"Bearer", "ak_…", "An API key of the gateway."}}}
		c.Requirements = []securityRequirement{{map[string]stringList{schemeName: {[]string{}}}}}
	}
	agent := s.Config.Agents[agentID]
	if !public && agent.Description != "" {
		c.Description = agent.Description
	}
	c.Skills = []skill{{ID: "chat", Name: agentID, Description: c.Description, Tags: []string{"chat"}}}
	if !public {
		c.Skills = append(c.Skills, toolSkills(agent)...)
	}
	return c
}

// toolSkills describes the tools of an agent.
func toolSkills(agent config.Agent) []skill {
	var skills []skill
	for _, name := range slices.Sorted(slices.Values(agent.Tools)) {
		skills = append(skills, skill{ID: name, Name: name, Description: "The tool " + name + ".", Tags: []string{"tool"}})
	}
	return skills
}

// getCard serves the public card of a configured agent, which needs no key. Remote agents belong to a tenant and have no public
// card. Without API keys there is only one principal, and the card is the extended one.
func (s *Server) getCard(x *protocol.Exchange) error {
	agentID := x.Param("agentName")
	if _, ok := s.Config.Agents[agentID]; !ok {
		return apierr.New(apierr.AgentNotFound, "there is no agent %.64q with a public card", agentID)
	}
	text, err := json.Marshal(s.card(x, agentID, s.Keys != nil), json.Deterministic(true))
	if err != nil {
		return err
	}
	hash := sha256.Sum256(text)
	x.SetHeader("Content-Type", "application/json")
	x.SetHeader("Cache-Control", "private, max-age=300")
	x.SetHeader("ETag", `"`+hex.EncodeToString(hash[:8])+`"`)
	x.ServeContent("agent-card.json", time.Time{}, bytes.NewReader(text))
	return nil
}

// extendedCard replies with the card for those who may address the agent.
func (s *Server) extendedCard(c call) error { return c.reply(s.card(c.Exchange, c.agentID, false)) }
