package api

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/gin-gonic/gin"
)

// steering is the answer of postSteer.
type steering struct {
	RequestID string `json:"requestId"`
	SteerID   string `json:"steerId"`
	Status    string `json:"status"`
}

// postSteer says something to a request that runs.
func (a *API) postSteer(c *gin.Context) error {
	in, err := a.receive(c)
	if err != nil {
		return err
	}
	if in.request.ThreadID != "" || !in.request.Context.IsZero() {
		return apierr.New(apierr.InvalidMessageFormat, "a steer has messages and nothing else; leave out threadId and context")
	}
	defer a.hurry(c)()
	r, err := a.request(c)
	if err != nil {
		return err
	}
	s := record.Steer{
		RequestID: r.RequestID, SteerID: steerID(r, in.key), By: r.Owner, Messages: in.request.Messages, At: a.Bus.Now().UTC(),
	}
	ctx := c.Request.Context()
	replayed, err := a.Desk.Steer(ctx, r, s, a.quotas.Store(ctx, principal(c)))
	if err != nil {
		return err
	}
	name(c, admission.Receipt{RequestID: r.RequestID, ThreadID: r.ThreadID, Replayed: replayed})
	return reply(c, http.StatusAccepted, steering{r.RequestID, s.SteerID, "accepted"})
}

// steerID derives from the key, if there is one, so that a retry has the same.
func steerID(r authz.Request, key string) string {
	if key == "" {
		return id.New(id.Steer)
	}
	return id.Derive(id.Steer, r.Tenant, r.RequestID, key)
}

// postFollowUp starts a request of the same agent on the same thread, which waits for its turn there.
func (a *API) postFollowUp(c *gin.Context) error {
	in, err := a.receive(c)
	if err != nil {
		return err
	}
	if in.request.ThreadID != "" {
		return apierr.New(apierr.InvalidMessageFormat,
			"a follow-up is on the thread of its request, and brings no action results; leave out threadId")
	}
	defer a.hurry(c)()
	r, err := a.request(c)
	if err != nil {
		return err
	}
	if !a.has(principal(c), r.AgentID) {
		return apierr.New(apierr.AgentNotFound, "there is no agent %.64q any more; start a request of another one on the thread", r.AgentID)
	}
	in.request.ThreadID = r.ThreadID
	call := a.call(principal(c), c.FullPath(), r.AgentID, in)
	call.OnBusy = config.OnBusyQueue
	ticket, err := a.take(c, call)
	if err != nil {
		return err
	}
	return replyStarted(c, ticket)
}
