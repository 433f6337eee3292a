package api

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/gin-gonic/gin"
)

// maxKey is the longest Idempotency-Key, in bytes.
const maxKey = 255

// agent is an entry of GET /v1/agents.
type agent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Backend     string   `json:"backend"`
	Model       string   `json:"model,omitempty"`
	Models      []string `json:"models,omitempty"` // that a request may name; "*" = any
	Tools       []string `json:"tools,omitempty"`

	Capabilities []string `json:"capabilities,omitempty"` // of a remote agent, and whether it can be reached
	Online       *bool    `json:"online,omitempty"`
}

func (a *API) getAgents(c *gin.Context) error {
	agents := make([]agent, 0, len(a.Config.Agents))
	for _, name := range slices.Sorted(maps.Keys(a.Config.Agents)) {
		it := a.Config.Agents[name]
		tools := slices.Clone(it.Tools)
		for _, t := range it.ClientTools {
			tools = append(tools, t.Name)
		}
		agents = append(agents, agent{
			Name: name, Description: it.Description, Backend: it.Backend, Model: it.Model, Models: it.AllowedModels(), Tools: tools,
		})
	}
	for _, r := range a.Remotes.List(principal(c).Tenant) {
		agents = append(agents, agent{
			Name: r.ID, Description: r.Name, Backend: "remote", Model: r.Model, Capabilities: r.Capabilities, Online: &r.Online,
		})
	}
	return reply(c, http.StatusOK, map[string][]agent{"agents": agents})
}

// has reports whether a principal may name the agent.
func (a *API) has(p auth.Principal, agentID string) bool {
	if _, ok := a.Config.Agents[agentID]; ok {
		return true
	}
	_, ok := a.Remotes.Find(p.Tenant, agentID)
	return ok
}

// target is the configuration of an agent. Of a remote agent only the model is known, which is the one that it allows.
func (a *API) target(p auth.Principal, agentID string) config.Agent {
	if own, ok := a.Config.Agents[agentID]; ok {
		return own
	}
	r, _ := a.Remotes.Find(p.Tenant, agentID)
	return config.Agent{Model: r.Model}
}

// postStream starts a request and streams it.
func (a *API) postStream(c *gin.Context) error {
	answer, err := a.openNew(c)
	if err != nil {
		return err
	}
	return a.serve(c, answer)
}

// openNew takes the request of the body and opens its log.
func (a *API) openNew(c *gin.Context) (answer stream.Response, err error) {
	enc, err := a.encoder(c, codec.Options{})
	if err != nil {
		return answer, err
	}
	ticket, err := a.accept(c)
	if err != nil {
		return answer, err
	}
	defer a.hurry(c)()
	answer, err = a.began(c, ticket)
	answer.Encoder = enc
	return answer, err
}

// began opens the log of a request that this call has begun, from its first event on. The status waits for that, so that
// a request that nobody begins to run can still be answered with an error. A client that leaves before the end aborts
// the request, where its agent says so.
func (a *API) began(c *gin.Context, t admission.Receipt) (stream.Response, error) {
	p := principal(c)
	request := authz.Request{Accepted: record.Accepted{Tenant: p.Tenant, RequestID: t.RequestID}}
	if t.Archived {
		var err error
		if request, err = a.Guard.Request(c.Request.Context(), p, t.RequestID); err != nil {
			return stream.Response{}, err
		}
	}
	frames, err := a.Logs.Open(c.Request.Context(), request, 0)
	return stream.Response{Frames: frames, DeferHeaders: true, KeyID: p.KeyID, Ended: func(err error) {
		if errors.Is(err, stream.ErrDisconnected) && a.Config.Agents[t.AgentID].OnDisconnect == config.OnDisconnectAbort {
			a.abandon(p, t.RequestID)
		}
	}}, err
}

// abandon aborts a request whose client has left.
func (a *API) abandon(p auth.Principal, requestID string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := a.Desk.Abort(ctx, p.Tenant, record.Abort{
		RequestID: requestID, By: p.Subject, Reason: "the client disconnected", At: a.Bus.Now().UTC(),
	})
	if err != nil {
		a.Log.ErrorContext(ctx, "could not abort the request of a client that left", "request", requestID, "error", err)
	}
}

// started is the answer of postRequest and postFollowUp.
type started struct {
	RequestID string            `json:"requestId"`
	ThreadID  string            `json:"threadId"`
	AgentID   string            `json:"agentId"`
	Status    historyapi.Status `json:"status"`
}

// postRequest starts a request and says where it is.
func (a *API) postRequest(c *gin.Context) error {
	ticket, err := a.accept(c)
	if err != nil {
		return err
	}
	return replyStarted(c, ticket)
}

func replyStarted(c *gin.Context, t admission.Receipt) error {
	c.Header("Location", "/v1/requests/"+t.RequestID)
	return reply(c, http.StatusAccepted, started{t.RequestID, t.ThreadID, t.AgentID, historyapi.StatusQueued})
}

// accept takes the request of the body, and sets the headers that name it.
func (a *API) accept(c *gin.Context) (admission.Receipt, error) {
	agentID := c.Param("agentName")
	if !a.has(principal(c), agentID) {
		return admission.Receipt{}, apierr.New(apierr.AgentNotFound, "there is no agent %.64q; GET /v1/agents lists them", agentID)
	}
	in, err := a.receive(c)
	if err != nil {
		return admission.Receipt{}, err
	}
	defer a.hurry(c)()
	return a.take(c, a.call(principal(c), c.FullPath(), agentID, in))
}

// received is what a client sent.
type received struct {
	request event.AgentRequest
	key     string // the Idempotency-Key; "" = none
	hash    string // of the body, and of what it is for
}

// receive reads the body. The path says what it is for.
func (a *API) receive(c *gin.Context) (in received, err error) {
	if in.key, err = idempotencyKey(c.Request.Header); err != nil {
		return in, err
	}
	body, err := a.readBody(c)
	if err != nil {
		return in, err
	}
	target := c.Param("agentName") + c.Param("requestId") // no route has both
	in.hash = admission.Hash(target, body)
	in.request, err = a.dialectOf(c).Decode(body)
	return in, err
}

// call is the request to an agent that the configuration has.
func (a *API) call(p auth.Principal, route, agentID string, in received) admission.Call {
	agent := a.Config.Agents[agentID]
	return admission.Call{
		Principal: p, AgentID: agentID, Request: in.request, Route: route, Key: in.key, BodyHash: in.hash,
		OnBusy: agent.OnBusy, Queue: cmp.Or(agent.Queue, config.DefaultQueue),
		Refusal: a.target(p, agentID).CheckModel("context.model", in.request.Context.Model),
	}
}

// take has a call accepted, and sets the headers that name the request.
func (a *API) take(c *gin.Context, call admission.Call) (admission.Receipt, error) {
	ticket, err := a.admitted(c.Request.Context(), call)
	if err == nil {
		name(c, ticket)
	}
	return ticket, err
}

// admitted has a call accepted that is within the quotas of its principal. A retry stores nothing more.
func (a *API) admitted(ctx context.Context, call admission.Call) (admission.Receipt, error) {
	if call.Refusal == nil {
		call.Refusal = a.quotas.Store(ctx, call.Principal)
	}
	done, err := a.quotas.Enter(ctx, call.Principal)
	if err != nil {
		return admission.Receipt{}, err
	}
	ticket, err := a.Desk.Accept(ctx, call)
	done(ticket.RequestID)
	return ticket, err
}

func name(c *gin.Context, t admission.Receipt) {
	c.Header(headerRequest, t.RequestID)
	c.Header(headerThread, t.ThreadID)
	if t.Replayed {
		c.Header(headerReplayed, "true")
	}
}

func idempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 || values[0] == "" || len(values[0]) > maxKey {
		return "", apierr.New(apierr.InvalidMessageFormat, "send one Idempotency-Key of 1 to %d characters, or none", maxKey)
	}
	return values[0], nil
}

// encoder returns an encoder for what the client asks for.
func (a *API) encoder(c *gin.Context, o codec.Options) (codec.Encoder, error) {
	o.Accept = c.GetHeader("Accept")
	o.Include = append(o.Include, words(c, "include")...)
	return a.dialectOf(c).Encoder(o)
}
