package native

import (
	"context"
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
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
	if err := checkSteer(in.request); err != nil {
		return err
	}
	defer x.WithTimeout()()
	r, err := s.findRequest(x)
	if err != nil {
		return err
	}
	id := steerID(r, in.key)
	replayed, err := s.steer(x.Context(), r, id, in.request.Messages, x.CheckStorage())
	if err != nil {
		return err
	}
	x.SetReceipt(admission.Receipt{RequestID: r.RequestID, ThreadID: r.ThreadID, Replayed: replayed})
	return x.Reply(http.StatusAccepted, steerReply{r.RequestID, id, "accepted"})
}

// checkSteer checks that a steer has messages and nothing else.
func checkSteer(r event.AgentRequest) error {
	if r.ThreadID != "" || !r.Context.IsZero() {
		return apierr.New(apierr.InvalidMessageFormat, "a steer has messages and nothing else; leave out threadId and context")
	}
	return nil
}

// steer records messages to a request, and reports whether they were recorded before. It fails with refusal if they were not.
func (s *Server) steer(ctx context.Context, r authz.Request, id string, messages []event.InputMessage, refusal error) (replayed bool, err error) {
	return s.Acceptor.Steer(ctx, r, record.Steer{
		RequestID: r.RequestID, SteerID: id, By: r.Owner, Messages: messages, At: s.Bus.Now().UTC(),
	}, refusal)
}

// steerID derives the id from the idempotency key, if there is one, so that a retry gets the same id.
func steerID(r authz.Request, key string) string {
	if key == "" {
		return id.New(id.Steer)
	}
	return id.Derive(id.Steer, r.Tenant, r.RequestID, key)
}
