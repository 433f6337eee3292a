package agui

import (
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/agui/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// postRun starts a run and streams it.
func (s *Server) postRun(x *protocol.Exchange) error {
	response, err := s.startRun(x)
	if err != nil {
		return err
	}
	return x.Stream(response)
}

// startRun accepts the run in the body and opens its log.
func (s *Server) startRun(x *protocol.Exchange) (response stream.Response, err error) {
	agentID, in, body, err := read(x)
	if err != nil {
		return response, err
	}
	request, err := in.Request()
	if err != nil {
		return response, err
	}
	output, err := s.toolOutput(x, agentID)
	if err != nil {
		return response, err
	}
	enc, err := x.Encoder(wire.Codec{}, codec.Options{ToolOutput: output})
	if err != nil {
		return response, err
	}
	defer x.WithTimeout()()
	receipt, err := x.Accept(protocol.Request{
		AgentID: agentID, Request: request.Request, CreateThread: true, Target: agentID, Body: body,
		Conversation: request.Conversation, System: request.System, Metadata: request.Metadata,
	})
	if err != nil {
		return response, err
	}
	response, err = x.Open(receipt)
	response.Encoder = enc
	return response, err
}
