package protocol

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
)

// Request is a request to an agent, as a client sent it. Accept checks what no codec checks: the tools, the options and
// the sizes of its members. The codec checks the parts of Request.Messages; see [codec.CheckContent].
type Request struct {
	AgentID string // an agent that exists
	Request event.AgentRequest
	OnBusy  string // see config.Agent; "" = as the agent's configuration says

	// CreateThread creates the thread that Request names, if it does not exist: for protocols whose clients choose the ids of
	// threads.
	CreateThread bool

	// Conversation is the whole conversation, for protocols whose clients send it with each request, the oldest message
	// first. Request.Messages is then empty. Messages of the system become part of System. On a new thread the rest is
	// imported. On a thread that has a request, the stored conversation has priority: only what the client has added after its
	// newest assistant message, and what is not stored yet, is new. A tool message that answers an open client tool call
	// becomes the result of its action.
	Conversation []event.HistoryMessage

	// Repeat sends the last message of the user again, if the conversation brings nothing new and the thread has a response to
	// it. The thread keeps that response.
	Repeat bool

	System   string          // instructions of this request; they follow those of the agent
	Metadata json.RawMessage // a JSON object that [event.Input] returns; one member for each protocol, such as {"agui":{…}}

	// Key identifies the request for retries, for protocols whose messages have ids; "" = the header Idempotency-Key.
	Key string
	// A retry with the same idempotency key must have the same body, for the same target.
	Target string
	Body   []byte
}

// ToolActionID returns the id of the action by which a client answers a call of a client tool.
func ToolActionID(toolCallID string) string { return id.Derive(id.Action, toolCallID) }

// accept stores a request within the quotas of its principal. A retry stores nothing.
func (h *Host) accept(ctx context.Context, p auth.Principal, route, key string, r Request) (admission.Receipt, error) {
	agent := h.Config.Agents[r.AgentID]
	call := admission.Call{
		Principal: p, AgentID: r.AgentID, Route: route, Key: key,
		BodyHash: admission.Hash(r.Target, r.Body), CreateThread: r.CreateThread,
		OnBusy: cmp.Or(r.OnBusy, agent.OnBusy), Queue: cmp.Or(agent.Queue, config.DefaultQueue),
		Refusal: h.agent(p, r.AgentID).CheckModel("context.model", r.Request.Context.Model),
	}
	if call.Refusal == nil {
		r, call.Refusal = h.checked(r)
	}
	if call.Refusal == nil {
		call.Refusal = h.quotas.Store(ctx, p)
	}
	call.Request, call.Conversation, call.Repeat = r.Request, r.Conversation, r.Repeat
	call.System, call.Metadata = r.System, r.Metadata
	done, err := h.quotas.Enter(ctx, p)
	if err != nil {
		return admission.Receipt{}, err
	}
	receipt, err := h.Acceptor.Accept(ctx, call)
	done(receipt.RequestID)
	return receipt, err
}
