package openai

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire/responses"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// postResponse starts a request, and responds with its stream, with the response at its end, or at once with a response that runs in
// the background.
func (s *Server) postResponse(x *protocol.Exchange) error {
	in, receipt, err := s.startResponse(x)
	if err != nil {
		return err
	}
	var response stream.Response
	if in.Background { // it is aborted neither if its client disconnects nor if no runner starts it in time
		r, err := s.Guard.Request(x.Context(), x.Principal(), receipt.RequestID)
		if err != nil {
			return err
		}
		if !in.Stream {
			return s.replyState(x, r)
		}
		if response, err = s.openLog(x, r); err != nil {
			return err
		}
	} else if response, err = x.Open(receipt); err != nil {
		return err
	}
	if !in.Stream {
		return replyEnd(x, response)
	}
	return streamFrom(x, response, 0)
}

// startResponse accepts the request in the body.
func (s *Server) startResponse(x *protocol.Exchange) (in responses.Input, receipt admission.Receipt, err error) {
	body, err := x.Body()
	if err != nil {
		return in, receipt, err
	}
	if in, err = responses.DecodeInput(body); err != nil {
		return in, receipt, err
	}
	r, err := in.Request(s.Bus.Now())
	if err != nil {
		return in, receipt, err
	}
	if !x.HasAgent(r.AgentID) {
		return in, receipt, noModel(r.AgentID)
	}
	defer x.WithTimeout()()
	if r.Previous != "" {
		if r.Request.ThreadID, err = s.continued(x, r); err != nil {
			return in, receipt, err
		}
	}
	receipt, err = x.Accept(protocol.Request{
		AgentID: r.AgentID, Request: r.Request, Conversation: r.Conversation, System: r.System, Metadata: r.Metadata,
		CreateThread: in.Conversation != nil, Target: r.AgentID, Body: body,
	})
	return in, receipt, err
}

// continued returns the thread of the previous response. A thread is a line: it continues after its newest response alone. A retry
// with an idempotency key is recognised by Accept.
func (s *Server) continued(x *protocol.Exchange, r responses.Request) (threadID string, err error) {
	previous, err := s.Guard.Request(x.Context(), x.Principal(), r.Previous)
	if err != nil {
		return "", err
	}
	if answered := r.Request.ThreadID; answered != "" && answered != previous.ThreadID {
		return "", apierr.New(apierr.InvalidMessageFormat, "the input answers calls of another thread than that of previous_response_id")
	}
	key, err := x.IdempotencyKey()
	if err != nil || key != "" || len(r.Request.Context.ActionResults) > 0 {
		return previous.ThreadID, err
	}
	newest, err := s.Guard.Thread(x.Context(), x.Principal(), previous.ThreadID)
	if err != nil {
		return "", err
	}
	if newest.RequestID != previous.RequestID {
		return "", apierr.New(apierr.InvalidMessageFormat,
			"previous_response_id is not the newest response of its thread, which is %s; send that one, or the whole conversation as input",
			responses.ID(newest.RequestID))
	}
	return previous.ThreadID, nil
}

// findResponse returns the request of the path.
func (s *Server) findResponse(x *protocol.Exchange) (authz.Request, error) {
	return s.find(x, responses.RequestID(x.Param("responseId")))
}

// getResponse returns the response as far as it is, or its stream from a position on.
func (s *Server) getResponse(x *protocol.Exchange) error {
	streamed, from, err := position(x)
	if err != nil {
		return err
	}
	r, err := s.findResponse(x)
	if err != nil {
		return err
	}
	if !streamed {
		return s.replyState(x, r)
	}
	response, err := s.openLog(x, r)
	if err != nil {
		return err
	}
	return streamFrom(x, response, from)
}

// position returns whether the client wants a stream, and the sequence number of its first event.
func position(x *protocol.Exchange) (streamed bool, from int, err error) {
	query := x.Query()
	switch text := query.Get("stream"); text {
	case "", "false":
	case "true":
		streamed = true
	default:
		return false, 0, apierr.New(apierr.InvalidMessageFormat, "stream=%.40q must be true or false", text)
	}
	text := query.Get("starting_after")
	if text == "" {
		return streamed, 0, nil
	}
	after, err := strconv.ParseUint(text, 10, 31)
	if err != nil || !streamed {
		return false, 0, apierr.New(apierr.InvalidMessageFormat,
			"starting_after=%.40q must be the sequence number of an event, together with stream=true", text)
	}
	return true, int(after) + 1, nil
}

func streamFrom(x *protocol.Exchange, response stream.Response, from int) error {
	var err error
	if response.Encoder, err = x.Encoder(responses.Codec{From: from}, codec.Options{}); err != nil {
		return err
	}
	return x.Stream(response)
}

// replyEnd waits for the end of a request. One that failed is a response all the same: its id shows what the agent has done, and an
// error would make clients run the agent again.
func replyEnd(x *protocol.Exchange, response stream.Response) error {
	log := responses.NewLog()
	if err := x.Collect(response, log.Add); err != nil {
		return continues(x, err)
	}
	return x.Reply(http.StatusOK, log.Response())
}

// replyState returns the response as far as it is.
func (s *Server) replyState(x *protocol.Exchange, r authz.Request) error {
	state, err := s.state(x, r)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, state)
}

// errReached is the end of the events that a log had when it was opened.
var errReached = errors.New("the newest event is reached")

// state returns the response of the events that its log has now.
func (s *Server) state(x *protocol.Exchange, r authz.Request) (responses.Response, error) {
	last, err := s.newest(x, r)
	if errors.Is(err, bus.ErrNotFound) {
		return responses.Queued(r.RequestID, r.At, inputOf(r.Accepted)), nil
	}
	if err != nil {
		return responses.Response{}, err
	}
	response, err := s.openLog(x, r)
	if err != nil {
		return responses.Response{}, err
	}
	log := responses.NewLog()
	err = x.Collect(response, func(f event.Frame) error {
		if err := log.Add(f); err != nil {
			return err
		}
		if !r.Archived && !last.Terminal() && f.Next() >= last.Next() {
			return errReached
		}
		return nil
	})
	if err != nil && !errors.Is(err, errReached) {
		return responses.Response{}, err
	}
	if now := log.Response(); now.ID != "" {
		return now, nil
	}
	return responses.Queued(r.RequestID, r.At, inputOf(r.Accepted)), nil // claimed, and not begun
}

// newest returns the newest frame of a log on the bus, or bus.ErrNotFound. It is empty for a log that only history has.
func (s *Server) newest(x *protocol.Exchange, r authz.Request) (event.Frame, error) {
	if r.Archived {
		return event.Frame{}, nil
	}
	defer x.WithTimeout()()
	last, err := s.Bus.Last(x.Context(), r.Log())
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return last, authz.Unavailable(err)
	}
	return last, err
}

// inputOf returns what an accepted request has brought, as its log will have it.
func inputOf(a record.Accepted) event.Input {
	return event.Input{
		ThreadID: a.ThreadID, AgentID: a.AgentID, Messages: a.Request.Messages, ActionResults: a.Request.Context.ActionResults,
		History: a.History, Tools: a.Request.Tools, Options: a.Request.Options, System: a.System, Metadata: a.Note,
	}
}

// cancelTimeout is the time for a request to end that is cancelled. Its state afterwards is the response in any case.
const cancelTimeout = 5 * time.Second

// cancelResponse aborts a request that has not ended, and returns the response.
func (s *Server) cancelResponse(x *protocol.Exchange) error {
	r, err := s.findResponse(x)
	if err != nil {
		return err
	}
	last, err := s.newest(x, r)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	if !r.Archived && !last.Terminal() {
		if err := s.abort(x.Context(), r); err != nil {
			return err
		}
	}
	return s.replyState(x, r)
}

// abort aborts a request, and waits for its end for a short time.
func (s *Server) abort(ctx context.Context, r authz.Request) error {
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	err := s.Acceptor.Abort(ctx, r.Tenant, record.Abort{RequestID: r.RequestID, By: r.Owner, At: s.Bus.Now().UTC()})
	if err != nil {
		return authz.Unavailable(err)
	}
	if err := s.Acceptor.AwaitEnd(ctx, r.Log()); err != nil && ctx.Err() == nil {
		return authz.Unavailable(err)
	}
	return nil
}

// deleted is the response of deleteResponse.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// deleteResponse deletes the thread of a response that is its only one.
func (s *Server) deleteResponse(x *protocol.Exchange) error {
	r, err := s.findResponse(x)
	if err != nil {
		return err
	}
	t, err := s.Guard.Thread(x.Context(), x.Principal(), r.ThreadID)
	if err != nil {
		return err
	}
	if t.Index != 0 || t.RequestID != r.RequestID {
		return apierr.New(apierr.InvalidMessageFormat,
			"the response is one of several of thread %s, which the others continue; DELETE /v1/threads/%s deletes all of them", r.ThreadID, r.ThreadID)
	}
	if err := s.Acceptor.Delete(x.Context(), r.Tenant, t); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, deleted{responses.ID(r.RequestID), "response", true})
}
