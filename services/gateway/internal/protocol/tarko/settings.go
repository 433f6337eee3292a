package tarko

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// settingAgent is the one setting that has a meaning here: who answers. All others are kept for the client.
const settingAgent = "agent"

// schema describes the settings, as a JSON Schema that clients make a form of.
type schema struct {
	Type       string            `json:"type"`
	Properties map[string]choice `json:"properties"`
}

type choice struct {
	Type    string   `json:"type"`
	Title   string   `json:"title"`
	Enum    []string `json:"enum"`
	Default string   `json:"default"`
}

// settings is the answer of getSettings.
type settings struct {
	Schema        schema                     `json:"schema"`
	CurrentValues map[string]json.RawMessage `json:"currentValues"`
}

// getSettings shows what can be set and what is: for a session that does not exist, what one begins with.
func (s *Server) getSettings(x *protocol.Exchange) error {
	sessionID := x.Query().Get("sessionId")
	meta := record.Session{AgentID: s.agent}
	if sessionID != "" {
		found, err := s.find(x.Context(), x.Principal(), sessionID)
		switch {
		case isNotFound(err):
		case err != nil:
			return err
		default:
			if meta, err = s.metadata(x.Context(), found); err != nil {
				return err
			}
		}
	}
	values, err := current(meta)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, settings{s.schema(), values})
}

// schema offers the agents, where there is a choice.
func (s *Server) schema() schema {
	properties := map[string]choice{}
	if len(s.agents) > 1 {
		properties[settingAgent] = choice{"string", "Agent", s.agents, s.agent}
	}
	return schema{"object", properties}
}

func current(n record.Session) (map[string]json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	if len(n.RuntimeSettings) > 0 {
		if err := jsonv2.Unmarshal(n.RuntimeSettings, &values); err != nil {
			return nil, err
		}
	}
	name, err := jsonv2.Marshal(n.AgentID)
	values[settingAgent] = name
	return values, err
}

// applySettings takes over settings. They replace those that there were.
func (s *Server) applySettings(n *record.Session, values json.RawMessage) error {
	if err := checkObject("runtimeSettings", values, maxSettings); err != nil || len(values) == 0 {
		return err
	}
	var known struct {
		Agent string `json:"agent"`
	}
	if err := jsonv2.Unmarshal(values, &known); err != nil {
		return invalid("runtimeSettings.agent must be a string")
	}
	if known.Agent != "" && !slices.Contains(s.agents, known.Agent) {
		return invalid("runtimeSettings.agent must be one of %v", s.agents)
	}
	if known.Agent != "" {
		s.setAgent(n, known.Agent)
	}
	n.RuntimeSettings = slices.Clone(values)
	return (*jsontext.Value)(&n.RuntimeSettings).Compact()
}

// postSettings changes the settings of a session. They count from its next query on.
func (s *Server) postSettings(x *protocol.Exchange) error {
	var in struct {
		SessionID       string          `json:"sessionId"`
		RuntimeSettings json.RawMessage `json:"runtimeSettings"`
	}
	if err := read(x, &in); err != nil {
		return err
	}
	changed, err := s.change(x, in.SessionID, func(n *record.Session) error {
		if len(in.RuntimeSettings) == 0 {
			return invalid("Runtime settings object is required")
		}
		return s.applySettings(n, in.RuntimeSettings)
	})
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]any{
		"success": true, "session": changed, "sessionInfo": changed, "runtimeSettings": in.RuntimeSettings,
	})
}
