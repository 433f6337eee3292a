package aisdk

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// stopping is the response of postStop.
type stopping struct {
	ChatID    string `json:"chatId"`
	RequestID string `json:"requestId"`
	Status    string `json:"status"`
}

// postStop asks the runner to abort the request that runs on the chat. The response has no content if none runs.
func (s *Server) postStop(x *protocol.Exchange) error {
	agentID, err := agent(x)
	if err != nil {
		return err
	}
	r, running, err := s.newest(x, agentID)
	if err != nil {
		return err
	}
	if !running {
		x.NoContent()
		return nil
	}
	err = s.Acceptor.Abort(x.Context(), r.Tenant, record.Abort{RequestID: r.RequestID, By: r.Owner, At: s.Bus.Now().UTC()})
	if err != nil {
		return authz.Unavailable(err)
	}
	return x.Reply(http.StatusAccepted, stopping{r.ThreadID, r.RequestID, "aborting"})
}
