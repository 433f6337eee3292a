package native

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// steerReply is the response of postSteer.
type steerReply struct {
	RequestID string `json:"requestId"`
	SteerID   string `json:"steerId"`
	Status    string `json:"status"`
}

// postSteer adds messages to a request that runs.
func (s *Server) postSteer(x *protocol.Exchange) error {
	in, err := s.read(x)
	if err != nil {
		return err
	}
	if in.request.ThreadID != "" || !in.request.Context.IsZero() {
		return apierr.New(apierr.InvalidMessageFormat, "a steer has messages and nothing else; leave out threadId and context")
	}
	defer x.WithTimeout()()
	r, err := s.findRequest(x)
	if err != nil {
		return err
	}
	steer := record.Steer{
		RequestID: r.RequestID, SteerID: steerID(r, in.key), By: r.Owner, Messages: in.request.Messages, At: s.Bus.Now().UTC(),
	}
	replayed, err := s.Acceptor.Steer(x.Context(), r, steer, x.CheckStorage())
	if err != nil {
		return err
	}
	x.SetReceipt(admission.Receipt{RequestID: r.RequestID, ThreadID: r.ThreadID, Replayed: replayed})
	return x.Reply(http.StatusAccepted, steerReply{r.RequestID, steer.SteerID, "accepted"})
}

// steerID derives the id from the idempotency key, if there is one, so that a retry gets the same id.
func steerID(r authz.Request, key string) string {
	if key == "" {
		return id.New(id.Steer)
	}
	return id.Derive(id.Steer, r.Tenant, r.RequestID, key)
}
