package agui

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/agui/wire"
)

// capabilities is AG-UI's AgentCapabilities.
type capabilities struct {
	Identity     identity        `json:"identity"`
	Transport    map[string]bool `json:"transport"`
	Tools        toolAbility     `json:"tools"`
	State        map[string]bool `json:"state"`
	MultiAgent   map[string]bool `json:"multiAgent"`
	Reasoning    map[string]bool `json:"reasoning"`
	Multimodal   multimodal      `json:"multimodal"`
	HumanInLoop  map[string]bool `json:"humanInTheLoop"`
	Custom       map[string]any  `json:"custom"`
	ProtocolUsed string          `json:"protocolVersion"`
}

type identity struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
}

type toolAbility struct {
	Supported      bool `json:"supported"`
	ParallelCalls  bool `json:"parallelCalls"`
	ClientProvided bool `json:"clientProvided"`
}

type multimodal struct {
	Input map[string]bool `json:"input"`
}

// acceptsTools reports whether runs of an agent may declare tools of their client.
func (s *Server) acceptsTools(agentID string) bool {
	own, ok := s.Config.Agents[agentID]
	return ok && own.RequestTools != config.RequestToolsRefuse && !own.RunsOwnTools()
}

// getInfo returns what the agent can do.
func (s *Server) getInfo(x *protocol.Exchange) error {
	agentID, err := agent(x)
	if err != nil {
		return err
	}
	about := identity{Name: agentID, Type: "remote", Description: ""}
	if own, ok := s.Config.Agents[agentID]; ok {
		about.Type, about.Description = own.Backend, own.Description
	}
	return x.Reply(http.StatusOK, capabilities{
		Identity:     about,
		Transport:    map[string]bool{"streaming": true, "websocket": false, "httpBinary": false, "resumable": true},
		Tools:        toolAbility{Supported: true, ParallelCalls: true, ClientProvided: s.acceptsTools(agentID)},
		State:        map[string]bool{"snapshots": false, "deltas": false, "memory": true, "persistentState": false},
		MultiAgent:   map[string]bool{"supported": true, "delegation": true, "handoffs": false},
		Reasoning:    map[string]bool{"supported": true, "streaming": true, "encrypted": true},
		Multimodal:   multimodal{Input: map[string]bool{"image": true, "pdf": true, "file": true, "audio": false, "video": false}},
		HumanInLoop:  map[string]bool{"supported": true, "approvals": true, "interrupts": true, "feedback": true, "approveWithEdits": false},
		Custom:       map[string]any{"connect": "/agui/" + agentID + "/connect", "cancel": "/agui/" + agentID + "/cancel"},
		ProtocolUsed: wire.ProtocolVersion,
	})
}
