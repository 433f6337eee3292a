package native

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// postStream starts a request and streams it.
func (s *Server) postStream(x *protocol.Exchange) error {
	response, err := s.startStream(x)
	if err != nil {
		return err
	}
	return x.Stream(response)
}

// startStream accepts the request in the body and opens its log.
func (s *Server) startStream(x *protocol.Exchange) (response stream.Response, err error) {
	enc, err := s.encoding(x)(x.Param("agentName"), codec.Options{})
	if err != nil {
		return response, err
	}
	receipt, err := s.start(x)
	if err != nil {
		return response, err
	}
	defer x.WithTimeout()()
	response, err = x.Open(receipt)
	response.Encoder = enc
	return response, err
}

// postRequest starts a request and returns its ids.
func (s *Server) postRequest(x *protocol.Exchange) error {
	receipt, err := s.start(x)
	if err != nil {
		return err
	}
	return replyStarted(x, receipt)
}

// start accepts the request in the body.
func (s *Server) start(x *protocol.Exchange) (admission.Receipt, error) {
	agentID := x.Param("agentName")
	if !x.HasAgent(agentID) {
		return admission.Receipt{}, agentNotFound(agentID)
	}
	in, err := s.read(x)
	if err != nil {
		return admission.Receipt{}, err
	}
	defer x.WithTimeout()()
	return x.Accept(protocol.Request{
		AgentID: agentID, Request: in.request, Target: agentID, Body: in.body, CreateThread: x.Query().Get("createThread") == "true",
	})
}

func agentNotFound(agentID string) error {
	return apierr.New(apierr.AgentNotFound, "agent %.64q does not exist; GET /v1/agents lists the agents", agentID)
}

// postFollowUp starts a request of the same agent on the same thread. It runs after the requests before it.
func (s *Server) postFollowUp(x *protocol.Exchange) error {
	in, err := s.read(x)
	if err != nil {
		return err
	}
	if in.request.ThreadID != "" {
		return apierr.New(apierr.InvalidMessageFormat,
			"a follow-up is on the thread of its request, and brings no action results; leave out threadId")
	}
	defer x.WithTimeout()()
	r, err := s.findRequest(x)
	if err != nil {
		return err
	}
	if !x.HasAgent(r.AgentID) {
		return apierr.New(apierr.AgentNotFound, "agent %.64q no longer exists; start a request of another agent on the thread", r.AgentID)
	}
	in.request.ThreadID = r.ThreadID
	receipt, err := x.Accept(protocol.Request{
		AgentID: r.AgentID, Request: in.request, OnBusy: config.OnBusyQueue, Target: x.Param("requestId"), Body: in.body,
	})
	if err != nil {
		return err
	}
	return replyStarted(x, receipt)
}

// startReply is the response of postRequest and postFollowUp.
type startReply struct {
	RequestID string            `json:"requestId"`
	ThreadID  string            `json:"threadId"`
	AgentID   string            `json:"agentId"`
	Status    historyapi.Status `json:"status"`
}

func replyStarted(x *protocol.Exchange, r admission.Receipt) error {
	x.SetHeader("Location", "/v1/requests/"+r.RequestID)
	return x.Reply(http.StatusAccepted, startReply{r.RequestID, r.ThreadID, r.AgentID, historyapi.StatusQueued})
}

// input is a decoded request of a client.
type input struct {
	request event.AgentRequest
	body    []byte
	key     string // the Idempotency-Key; "" = none
}

// read reads the idempotency key and decodes the body.
func (s *Server) read(x *protocol.Exchange) (in input, err error) {
	if in.key, err = x.IdempotencyKey(); err != nil {
		return in, err
	}
	if in.body, err = x.Body(); err != nil {
		return in, err
	}
	in.request, err = s.codec.Decode(in.body)
	return in, err
}

// encoding encodes what the client accepts and includes.
func (s *Server) encoding(x *protocol.Exchange) encoding {
	return func(agentID string, o codec.Options) (codec.Encoder, error) {
		o, err := s.including(x.Principal(), agentID, x.QueryList("include"), o)
		if err != nil {
			return nil, err
		}
		return x.Encoder(s.codec, o)
	}
}
