package tarko

import (
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// model is a model that a session may select.
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

// postModel selects the model of a session from its next query on, and an agent that allows the model if its own does
// not.
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
	changed, err := s.change(x, in.SessionID, func(n *record.Session) error { return s.setModel(n, *in.Model) })
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]any{"success": true, "sessionInfo": changed})
}

// route returns the agent of a session's queries, and the model ("" = the agent's own).
func (s *Server) route(meta record.Session) (agentID, model string, err error) {
	agent, ok := s.Config.Agents[meta.AgentID]
	switch {
	case !ok:
		return "", "", agentNotFound(meta.AgentID)
	case meta.Model == nil:
		return meta.AgentID, "", nil
	case !allowsModel(agent, *meta.Model):
		return "", "", apierr.New(apierr.AgentNotFound, "The agent %.64q has no model %.64q of %.64q any more; choose another model",
			meta.AgentID, meta.Model.ID, meta.Model.Provider)
	}
	return meta.AgentID, meta.Model.ID, nil
}

// setModel sets the model of a session. If the session's agent does not allow it, the session changes to an agent that
// does.
func (s *Server) setModel(n *record.Session, m record.Model) error {
	if !slices.ContainsFunc(s.models(), func(one model) bool { return one.Model == m }) {
		return invalid("Invalid model configuration: GET /api/v1/models lists what there is")
	}
	n.Model = &m
	if allowsModel(s.Config.Agents[n.AgentID], m) {
		return nil
	}
	for _, name := range s.agents {
		if allowsModel(s.Config.Agents[name], m) {
			n.AgentID = name
			return nil
		}
	}
	return agentNotFound(n.AgentID)
}

// setAgent sets the agent of a session. It resets the model if that agent does not allow it.
func (s *Server) setAgent(n *record.Session, agentID string) {
	n.AgentID = agentID
	if n.Model != nil && !allowsModel(s.Config.Agents[agentID], *n.Model) {
		n.Model = nil
	}
}

// allowsModel reports whether an agent allows a model.
func allowsModel(a config.Agent, m record.Model) bool {
	return a.Backend == m.Provider && a.CheckModel("model", m.ID) == nil
}
