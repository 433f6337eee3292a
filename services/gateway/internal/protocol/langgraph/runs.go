package langgraph

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
	streams "github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// streamRun starts a run and streams it.
func (s *Server) streamRun(x *protocol.Exchange) error {
	in, receipt, err := s.startRun(x)
	if err != nil {
		return err
	}
	setLocation(x, receipt, in)
	response, err := s.open(x, in, receipt)
	if err != nil {
		return err
	}
	return x.Stream(response)
}

// open opens the log of a run that this exchange has started.
func (s *Server) open(x *protocol.Exchange, in wire.Input, receipt admission.Receipt) (streams.Response, error) {
	modes, err := wire.ParseModes(in.StreamMode)
	if err != nil {
		return streams.Response{}, err
	}
	enc, err := x.Encoder(wire.Codec{Modes: modes, Earlier: s.earlier(x, receipt.ThreadID, receipt.RequestID)}, codec.Options{})
	if err != nil {
		return streams.Response{}, err
	}
	response, err := x.Open(receipt)
	response.Encoder = enc
	if in.OnDisconnect == "cancel" && !in.StreamResumable {
		s.cancelOnDisconnect(x, &response, receipt.RequestID)
	}
	return response, err
}

// setLocation sets the headers by which a client finds the run, and its stream again. A run that ends with its connection has
// no stream to come back to.
func setLocation(x *protocol.Exchange, receipt admission.Receipt, in wire.Input) {
	at := "/threads/" + receipt.ThreadID + "/runs/" + receipt.RequestID
	x.SetHeader("Content-Location", at)
	if in.OnDisconnect == "cancel" && !in.StreamResumable {
		return
	}
	modes := url.Values{"stream_mode": in.StreamMode}
	x.SetHeader("Location", strings.TrimSuffix(at+"/stream?"+modes.Encode(), "?"))
}

// cancelOnDisconnect cancels a run when the client of a response disconnects before its end.
func (s *Server) cancelOnDisconnect(x *protocol.Exchange, response *streams.Response, requestID string) {
	ended, tenant, by := response.Ended, x.Principal().Tenant, x.Principal().Subject
	response.Ended = func(err error) {
		if ended != nil {
			ended(err)
		}
		if errors.Is(err, streams.ErrDisconnected) {
			s.abortLater(tenant, requestID, by)
		}
	}
}

// createRun starts a run in the background.
func (s *Server) createRun(x *protocol.Exchange) error {
	in, receipt, err := s.startRun(x)
	if err != nil {
		return err
	}
	setLocation(x, receipt, in)
	r, err := s.Guard.Request(x.Context(), x.Principal(), receipt.RequestID)
	if err != nil {
		return err
	}
	found, err := s.run(x.Context(), r)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, found)
}

// waitRun starts a run, and responds with the state of its thread when it has ended.
func (s *Server) waitRun(x *protocol.Exchange) error {
	in, receipt, err := s.startRun(x)
	if err != nil {
		return err
	}
	setLocation(x, receipt, wire.Input{StreamMode: in.StreamMode})
	response, err := x.Open(receipt)
	if err != nil {
		return err
	}
	if in.OnDisconnect == "cancel" {
		s.cancelOnDisconnect(x, &response, receipt.RequestID)
	}
	return s.replyFinal(x, response, receipt.ThreadID, receipt.RequestID)
}

// replyFinal waits for the end of a run, and responds with the state of its thread.
func (s *Server) replyFinal(x *protocol.Exchange, response streams.Response, threadID, requestID string) error {
	outcome, err := x.Await(response, protocol.AwaitOptions{})
	if err != nil {
		return err
	}
	if failed, ok := wire.EndError(outcome.End); ok {
		return x.Reply(http.StatusOK, map[string]wire.RunError{"__error__": failed})
	}
	done := x.WithTimeout()
	defer done()
	states, err := s.states(x.Context(), ref(x, threadID), requestID)
	if err != nil {
		return err
	}
	if len(states) == 0 {
		return apierr.New(apierr.Unavailable, "the state of the thread is not available yet; read it later")
	}
	values := states[len(states)-1].Values
	for _, c := range outcome.Actions {
		values.Interrupts = append(values.Interrupts, wire.NewInterrupt(c.ActionID, c.Kind, c.Payload))
	}
	return x.Reply(http.StatusOK, values)
}

// startRun accepts the run in the body, on the thread of the path or on a new one.
func (s *Server) startRun(x *protocol.Exchange) (in wire.Input, receipt admission.Receipt, err error) {
	body, err := x.Body()
	if err != nil {
		return in, receipt, err
	}
	if in, err = wire.DecodeInput(body); err != nil {
		return in, receipt, err
	}
	receipt, err = s.start(x, in, body)
	return in, receipt, err
}

// start accepts a run. The body is what an idempotency key is for.
func (s *Server) start(x *protocol.Exchange, in wire.Input, body []byte) (receipt admission.Receipt, err error) {
	if !x.HasAgent(in.AssistantID) {
		return receipt, noAssistant(in.AssistantID)
	}
	asked, err := in.Request()
	if err != nil {
		return receipt, err
	}
	defer x.WithTimeout()()
	r := protocol.Request{
		AgentID: in.AssistantID, Request: asked.Request, Conversation: asked.Conversation, System: asked.System, Metadata: asked.Metadata,
		Target: in.AssistantID + "\x00" + x.Param("threadId"), Body: body,
	}
	if r.OnBusy, err = onBusy(in.MultitaskStrategy); err != nil {
		return receipt, err
	}
	if err := s.addThread(x, in, &r); err != nil {
		return receipt, err
	}
	return x.Accept(r)
}

// onBusy translates a strategy. By default a run waits for those before it.
func onBusy(strategy string) (string, error) {
	switch strategy {
	case "", "enqueue":
		return config.OnBusyQueue, nil
	case "reject":
		return config.OnBusyReject, nil
	case "interrupt":
		return config.OnBusyInterrupt, nil
	default:
		return "", apierr.New(apierr.InvalidMessageFormat, "multitask_strategy %.40q is not supported; use reject, interrupt or enqueue", strategy)
	}
}

// addThread adds the thread of the path, and the answers to its open actions.
func (s *Server) addThread(x *protocol.Exchange, in wire.Input, r *protocol.Request) error {
	threadID, resume := x.Param("threadId"), in.Resumes()
	if threadID == "" {
		if resume != nil {
			return apierr.New(apierr.InvalidMessageFormat, "command.resume needs a thread; send it to /threads/{thread_id}/runs")
		}
		var err error
		r.Request.ThreadID, err = x.NewThreadID()
		r.CreateThread = true
		return err
	}
	if !id.Valid(threadID) {
		return apierr.New(apierr.ThreadNotFound, "there is no thread %.80q; an id must match ^[A-Za-z0-9_-]{1,64}$", threadID)
	}
	r.Request.ThreadID, r.CreateThread = threadID, in.IfNotExists == "create"
	if err := s.checkCheckpoint(x, in.At(), threadID); err != nil {
		return err
	}
	if resume == nil {
		if len(r.Request.Messages) == 0 && len(r.Conversation) == 0 {
			return apierr.New(apierr.InvalidMessageFormat, "input has no messages; to answer what the thread waits for, send command.resume")
		}
		return nil
	}
	open, err := s.openActions(x.Context(), x.Principal(), threadID)
	if err != nil {
		return err
	}
	r.Request.Context.ActionResults, err = wire.Results(resume, open)
	if r.Request.Messages == nil {
		r.Request.Messages = []event.InputMessage{}
	}
	return err
}

// checkCheckpoint refuses a run that starts from an earlier state: a thread has no branches.
func (s *Server) checkCheckpoint(x *protocol.Exchange, checkpointID, threadID string) error {
	if checkpointID == "" {
		return nil
	}
	t, err := s.Guard.Thread(x.Context(), x.Principal(), threadID)
	if err != nil || t.RequestID == checkpointID {
		return err
	}
	return apierr.New(apierr.InvalidMessageFormat, "checkpoint %.64q is not the newest one of the thread; runs start from the newest state", checkpointID)
}

func ref(x *protocol.Exchange, threadID string) historyapi.ThreadRef {
	return historyapi.ThreadRef{Tenant: x.Principal().Tenant, ThreadID: threadID}
}
