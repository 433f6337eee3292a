package a2a

import (
	"context"
	"io"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// sent is the result of SendMessage.
type sent struct {
	Task wire.Task `json:"task"`
}

// send adds a message, and replies with the task at once, or when its request has ended.
func (s *Server) send(c call, in wire.Send) error {
	response, t, err := s.deliver(c, in)
	if err != nil {
		return err
	}
	if in.Configuration.ReturnImmediately {
		response.Frames.Close()
	} else if err := c.Collect(response, t.add); err != nil {
		return err
	}
	return c.reply(sent{t.Task().Recent(in.Configuration.HistoryLength)})
}

// sendStreaming adds a message, and streams the task until its request has ended.
func (s *Server) sendStreaming(c call, in wire.Send) error {
	in.Configuration.ReturnImmediately = false
	response, t, err := s.deliver(c, in)
	if err != nil {
		return err
	}
	if response.DeferHeaders { // the stream of a new request begins with its first event
		response.Encoder, err = c.Encoder(wire.Codec{Call: c.rpc, Task: t.Fold}, codec.Options{})
	} else {
		response, err = s.following(c, t, response.Frames)
	}
	if err != nil {
		return err
	}
	return c.Stream(response)
}

// deliver adds a message to the conversation: it begins a task, or continues the one that it names. It returns the task before the
// frames of the response, which are those of one request.
func (s *Server) deliver(c call, in wire.Send) (response stream.Response, t *task, err error) {
	push := in.Configuration.Push
	if push != nil {
		if err := s.checkPush(*push); err != nil {
			return response, nil, err
		}
	}
	defer c.WithTimeout()()
	response, t, err = s.add(c, in)
	if err == nil && push != nil {
		if _, err = s.addPush(c, t.id, *push, wire.StateSubmitted, ""); err != nil {
			response.Frames.Close()
		}
	}
	return response, t, err
}

// add is deliver without the receiver of push notifications.
func (s *Server) add(c call, in wire.Send) (response stream.Response, t *task, err error) {
	if in.Message.TaskID != "" {
		return s.proceed(c, in)
	}
	request, err := in.Request(nil)
	if err != nil {
		return response, nil, err
	}
	receipt, err := c.Accept(protocol.Request{
		AgentID: c.agentID, Request: request, CreateThread: true, Metadata: wire.Note("", in.Message.MessageID),
		Target: c.agentID, Key: messageKey(c, in), Body: in.Body(),
	})
	if err != nil {
		return response, nil, err
	}
	if receipt.Replayed {
		if t, err = s.open(c, receipt.RequestID); err != nil {
			return response, nil, err
		}
		return s.remaining(c, t), t, nil
	}
	t = &task{Fold: wire.NewFold(receipt.RequestID, receipt.ThreadID), id: receipt.RequestID}
	return s.begin(c, in, t, receipt)
}

// messageKey is the idempotency key of a message: one that is sent again is the same task.
func messageKey(c call, in wire.Send) string { return "a2a " + c.agentID + " " + in.Message.MessageID }

// begin opens the log of a request that was accepted.
func (s *Server) begin(c call, in wire.Send, t *task, r admission.Receipt) (stream.Response, *task, error) {
	if in.Configuration.ReturnImmediately {
		t.Submit(in.Message, s.Bus.Now())
		return stream.Response{Frames: noFrames{}}, t, nil
	}
	response, err := c.Open(r)
	return response, t, err
}

// proceed continues a task. A message that the task has already changes nothing, and one to a task that runs steers it.
func (s *Server) proceed(c call, in wire.Send) (response stream.Response, t *task, err error) {
	if t, err = s.open(c, in.Message.TaskID); err != nil {
		return response, nil, err
	}
	opened := t
	defer func() {
		if err != nil {
			opened.close()
		}
	}()
	switch {
	case in.Message.ContextID != "" && in.Message.ContextID != t.ContextID():
		return response, nil, apierr.New(apierr.InvalidMessageFormat, "message.contextId is not that of the task; leave it out")
	case t.HasMessage(in.Message.MessageID):
		return s.remaining(c, t), t, nil
	case t.State().IsTerminal():
		return response, nil, wire.Unsupported.New("the task has ended; send the message without taskId to begin another one in its context")
	}
	request, err := in.Request(t.Waiting())
	if err != nil {
		return response, nil, err
	}
	if t.State() != wire.StateInputRequired {
		err = s.steer(c, t, in, request)
		return s.remaining(c, t), t, err
	}
	request.ThreadID = t.ContextID()
	receipt, err := c.Accept(protocol.Request{
		AgentID: c.agentID, Request: request, Metadata: wire.Note(t.id, in.Message.MessageID),
		Target: t.id, Key: messageKey(c, in), Body: in.Body(),
	})
	if err != nil {
		return response, nil, err
	}
	return s.begin(c, in, t, receipt)
}

// steer adds a message to the request that runs.
func (s *Server) steer(c call, t *task, in wire.Send, request event.AgentRequest) error {
	_, err := s.Acceptor.Steer(c.Context(), t.last.Request, record.Steer{
		RequestID: t.last.RequestID, SteerID: id.Derive(id.Steer, t.last.Tenant, t.last.RequestID, in.Message.MessageID),
		By: t.last.Owner, Messages: request.Messages, At: s.Bus.Now().UTC(),
	}, c.CheckStorage())
	return err
}

// remaining returns the response for what follows in the log of a task's last request.
func (s *Server) remaining(c call, t *task) stream.Response {
	frames := t.frames
	if frames == nil {
		frames = noFrames{}
	}
	return stream.Response{Frames: frames, KeyID: c.Principal().KeyID}
}

// noFrames are the frames of a request that has ended.
type noFrames struct{}

var _ stream.Frames = noFrames{}

// Next implements stream.Frames.
func (noFrames) Next(context.Context, time.Duration) (event.Frame, error) {
	return event.Frame{}, io.EOF
}

// Ready implements stream.Frames.
func (noFrames) Ready() bool { return true }

// Close implements stream.Frames.
func (noFrames) Close() {}
