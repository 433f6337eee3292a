package tarko

import (
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// model is one that a session may be answered by.
type model struct {
	record.Model
	DisplayName string `json:"displayName"`
}

// models lists the models that the agents allow.
func (s *Server) models() []model {
	models := []model{}
	for _, name := range s.agents {
		agent := s.Config.Agents[name]
		for _, id := range agent.AllowedModels() {
			one := record.Model{Provider: agent.Backend, ID: id}
			if id != config.AnyModel && !slices.ContainsFunc(models, func(m model) bool { return m.Model == one }) {
				models = append(models, model{one, id})
			}
		}
	}
	return models
}

func (s *Server) getModels(x *protocol.Exchange) error {
	return x.Reply(http.StatusOK, map[string][]model{"models": s.models()})
}

// postModel chooses the model that answers a session from its next query on, and its agent with it where it must.
func (s *Server) postModel(x *protocol.Exchange) error {
	var in struct {
		SessionID string        `json:"sessionId"`
		Model     *record.Model `json:"model"`
	}
	if err := read(x, &in); err != nil {
		return err
	}
	if in.SessionID == "" || in.Model == nil || in.Model.Provider == "" || in.Model.ID == "" {
		return invalid("Missing required parameters: sessionId, model.provider, model.id")
	}
	changed, err := s.change(x, in.SessionID, func(n *record.Session) error { return s.choose(n, *in.Model) })
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]any{"success": true, "sessionInfo": changed})
}

// route says who answers a session's queries, and with which model ("" = the agent's own).
func (s *Server) route(noted record.Session) (agentID, model string, err error) {
	agent, ok := s.Config.Agents[noted.AgentID]
	switch {
	case !ok:
		return "", "", noAgent(noted.AgentID)
	case noted.Model == nil:
		return noted.AgentID, "", nil
	case !asks(agent, *noted.Model):
		return "", "", apierr.New(apierr.AgentNotFound, "The agent %.64q has no model %.64q of %.64q any more; choose another model",
			noted.AgentID, noted.Model.ID, noted.Model.Provider)
	}
	return noted.AgentID, noted.Model.ID, nil
}

// choose makes a model that of a session. One that the session's agent cannot ask brings the agent that has it, and the
// session says so.
func (s *Server) choose(n *record.Session, m record.Model) error {
	if !slices.ContainsFunc(s.models(), func(one model) bool { return one.Model == m }) {
		return invalid("Invalid model configuration: GET /api/v1/models lists what there is")
	}
	n.Model = &m
	if asks(s.Config.Agents[n.AgentID], m) {
		return nil
	}
	for _, name := range s.agents {
		if asks(s.Config.Agents[name], m) {
			n.AgentID = name
			return nil
		}
	}
	return noAgent(n.AgentID)
}

// setAgent makes an agent that of a session. It brings its own model where it cannot ask the one that was chosen.
func (s *Server) setAgent(n *record.Session, agentID string) {
	n.AgentID = agentID
	if n.Model != nil && !asks(s.Config.Agents[agentID], *n.Model) {
		n.Model = nil
	}
}

// asks reports whether an agent may be asked to use a model.
func asks(a config.Agent, m record.Model) bool {
	return a.Backend == m.Provider && a.CheckModel("model", m.ID) == nil
}
