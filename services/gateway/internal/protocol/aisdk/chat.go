package aisdk

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/aisdk/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// postChat starts a request and streams its message.
func (s *Server) postChat(x *protocol.Exchange) error {
	response, err := s.start(x)
	if err != nil {
		return err
	}
	x.SetHeader(wire.VersionHeader, wire.Version)
	return x.Stream(response)
}

// start accepts the request in the body and opens its log.
func (s *Server) start(x *protocol.Exchange) (response stream.Response, err error) {
	agentID, err := agent(x)
	if err != nil {
		return response, err
	}
	options, err := s.options(x, agentID)
	if err != nil {
		return response, err
	}
	body, err := x.Body()
	if err != nil {
		return response, err
	}
	in, err := wire.DecodeInput(body)
	if err != nil {
		return response, err
	}
	r, err := in.Request()
	if err != nil {
		return response, err
	}
	defer x.WithTimeout()()
	if r.Request.Context.ActionResults, err = s.answers(x, r); err != nil {
		return response, err
	}
	receipt, err := x.Accept(protocol.Request{
		AgentID: agentID, Request: r.Request, CreateThread: true, Target: agentID, Body: body,
		Conversation: r.Conversation, Repeat: r.Repeat, System: r.System, Metadata: r.Metadata,
	})
	if err != nil {
		return response, err
	}
	if response, err = x.Open(receipt); err != nil {
		return response, err
	}
	response.Encoder, err = x.Encoder(wire.Codec{ClientTools: s.clientTools(agentID), Continued: r.Continued}, options)
	return response, err
}

// answers returns the results of the thread's open actions. A client sends the decisions and outputs of the whole message,
// most of which earlier requests have resolved. If it continues a message with decisions alone, and none of them is open, they
// are kept, so that the error says so.
func (s *Server) answers(x *protocol.Exchange, r wire.Request) ([]event.ActionResult, error) {
	if len(r.Approvals)+len(r.Outputs) == 0 {
		return nil, nil
	}
	ctx, p := x.Context(), x.Principal()
	thread, err := s.Guard.Thread(ctx, p, r.Request.ThreadID)
	if apierr.CodeOf(err) == apierr.ThreadNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	open, err := s.Acceptor.OpenActions(ctx, p.Tenant, thread)
	if err != nil {
		return nil, err
	}
	var results []event.ActionResult
	for _, a := range r.Approvals {
		if action, ok := open[a.ActionID]; ok && action.Kind == event.ContinueApproval {
			results = append(results, a)
		}
	}
	for _, o := range r.Outputs {
		for _, actionID := range o.ActionOf() {
			if action, ok := open[actionID]; ok && action.Kind != event.ContinueApproval {
				o.Result.ActionID = actionID
				results = append(results, o.Result)
			}
		}
	}
	if len(results) == 0 && r.Continued.ID != "" {
		return r.Approvals, nil
	}
	return slices.Clip(results), nil
}
