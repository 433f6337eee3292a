package openai

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire/chat"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// postChat starts a request, and responds with its stream or, at its end, with a completion.
func (s *Server) postChat(x *protocol.Exchange) error {
	in, receipt, err := s.startChat(x)
	if err != nil {
		return err
	}
	response, err := x.Open(receipt)
	if err != nil {
		return err
	}
	if !in.Stream {
		return reply(x, receipt.RequestID, response)
	}
	if response.Encoder, err = x.Encoder(chat.Codec{Usage: in.StreamOptions != nil && in.StreamOptions.IncludeUsage}, codec.Options{}); err != nil {
		return err
	}
	return x.Stream(response)
}

// startChat accepts the request in the body.
func (s *Server) startChat(x *protocol.Exchange) (in chat.Input, receipt admission.Receipt, err error) {
	body, err := x.Body()
	if err != nil {
		return in, receipt, err
	}
	if in, err = chat.DecodeInput(body); err != nil {
		return in, receipt, err
	}
	r, err := in.Request()
	if err != nil {
		return in, receipt, err
	}
	if !x.HasAgent(r.AgentID) {
		return in, receipt, noModel(r.AgentID)
	}
	defer x.WithTimeout()()
	receipt, err = x.Accept(protocol.Request{
		AgentID: r.AgentID, Request: r.Request, Conversation: r.Conversation, System: r.System,
		CreateThread: r.Conversation != nil && r.Request.ThreadID != "", Target: r.AgentID, Body: body,
	})
	return in, receipt, err
}

// getChat returns the completion of a request, when it has ended.
func (s *Server) getChat(x *protocol.Exchange) error {
	r, err := s.find(x, chat.RequestID(x.Param("completionId")))
	if err != nil {
		return err
	}
	response, err := s.openLog(x, r)
	if err != nil {
		return err
	}
	return reply(x, r.RequestID, response)
}

// reply waits for the end of a request, and responds with the completion.
func reply(x *protocol.Exchange, requestID string, response stream.Response) error {
	outcome, err := x.Await(response, protocol.AwaitOptions{})
	if err != nil {
		return continues(x, err)
	}
	if end, bad := wire.EndError(outcome.End); bad {
		failure, _ := outcome.End.(event.Error)
		return failed(x, end, failure.Retryable)
	}
	done, ok := outcome.End.(event.Done)
	if !ok {
		return apierr.New(apierr.Internal, "request %s ended with an unknown event", requestID)
	}
	return x.Reply(http.StatusOK, chat.Outcome{
		RequestID: requestID, ThreadID: outcome.Metadata.ThreadID, AgentID: outcome.Metadata.AgentID,
		At: outcome.StartedAt, Blocks: outcome.Blocks, Actions: outcome.Actions, Done: done,
	}.Completion())
}
