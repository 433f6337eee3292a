package openai

import (
	"maps"
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// model is an agent as a model.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // not known: 0
	OwnedBy string `json:"owned_by"`
}

type modelList struct {
	Object string  `json:"object"`
	Data   []model `json:"data"`
}

func newModel(agentID string) model { return model{ID: agentID, Object: "model", OwnedBy: "agentbus"} }

// getModels lists the agents that the caller may address.
func (s *Server) getModels(x *protocol.Exchange) error {
	list := modelList{Object: "list", Data: []model{}}
	for _, agentID := range slices.Sorted(maps.Keys(s.Config.Agents)) {
		list.Data = append(list.Data, newModel(agentID))
	}
	for _, r := range s.Remotes.List(x.Principal().Tenant) {
		list.Data = append(list.Data, newModel(r.ID))
	}
	return x.Reply(http.StatusOK, list)
}

// getModel returns one of them.
func (s *Server) getModel(x *protocol.Exchange) error {
	agentID := x.Param("model")
	if !x.HasAgent(agentID) {
		return noModel(agentID)
	}
	return x.Reply(http.StatusOK, newModel(agentID))
}

func noModel(name string) error {
	return apierr.New(apierr.AgentNotFound, "there is no model %.64q: models are agents; GET /openai/v1/models lists them", name)
}
