package natsagents

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/admission"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/natsagents/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// run is the answer to one prompt: a request, and those that continue it.
type run struct {
	server *Server
	prompt *bus.Prompt
	caller *protocol.Caller
	now    admission.Receipt    // the request that is followed
	open   []event.Continuation // the actions that it waits for
	end    event.Body           // its terminal event
}

// fail ends the response with an error, unless the client has left.
func (r *run) fail(ctx context.Context, err error) {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errLeft):
		return
	case errors.Is(cause, stream.ErrDraining):
		err = apierr.New(apierr.Unavailable, "the gateway is shutting down; the request runs on: send the prompt again with the same Nats-Msg-Id")
	case errors.Is(cause, stream.ErrTimeout):
		err = apierr.New(apierr.StreamTimeout, "the response lasted too long; the request runs on")
	case errors.Is(cause, stream.ErrRevoked), errors.Is(cause, stream.ErrExpired):
		err = apierr.Wrap(cause, apierr.AuthFailed, "the API key is not valid any more")
	}
	f := r.caller.Error(ctx, err)
	_, body := wire.Codec{}.EncodeError(codec.ErrorResponse{Error: f, RequestID: r.now.RequestID, ThreadID: r.now.ThreadID})
	r.prompt.Fail(wire.Status(f.Code), f.Message, body)
}

// serve answers the prompt.
func (r *run) serve(ctx context.Context) error {
	if err := r.accept(ctx); err != nil {
		return err
	}
	if err := r.prompt.Send(wire.Ack()); err != nil {
		return err
	}
	ctx, leave := context.WithCancelCause(ctx)
	alive := make(chan struct{})
	go func() { // ends with leave
		defer close(alive)
		r.keepAlive(ctx, leave)
	}()
	defer func() {
		leave(nil)
		<-alive
	}()
	for {
		err := r.follow(ctx)
		if err == nil && len(r.open) == 0 {
			return failureOf(r.end)
		}
		if err == nil {
			err = r.resolve(ctx)
		}
		if errors.Is(context.Cause(ctx), errLeft) {
			if r.end == nil {
				r.caller.Abort(r.now) //nolint:contextcheck // the context of the client has ended
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// accept stores the request of the prompt. A prompt that is sent again with its id gets the response to the first one.
func (r *run) accept(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, protocol.Timeout)
	defer cancel()
	if err := r.caller.CheckRate(ctx); err != nil {
		return err
	}
	if most := r.server.maxPrompt(); int64(len(r.prompt.Data)) > most {
		return apierr.New(apierr.MessageTooLarge, "the prompt has %d bytes; the limit is %d", len(r.prompt.Data), most)
	}
	in, err := wire.DecodePrompt(r.prompt.Data)
	if err != nil {
		return err
	}
	request, err := in.Request()
	if err != nil {
		return err
	}
	r.now, err = r.caller.Accept(ctx, r.prompt.Header("Nats-Msg-Id"), protocol.Request{
		AgentID: r.prompt.Agent, Request: request, CreateThread: true, Target: r.prompt.Agent, Body: r.prompt.Data,
	})
	return err
}

// keepAlive sends signs of life until ctx is done. If the client no longer listens, it calls leave.
func (r *run) keepAlive(ctx context.Context, leave context.CancelCauseFunc) {
	tick := time.NewTicker(r.server.Streamer.Heartbeat())
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if ctx.Err() == nil && !r.prompt.Ping(ctx, wire.Ack()) {
				leave(errLeft)
			}
		case <-ctx.Done():
			return
		}
	}
}

// follow sends the text of a request's log, and keeps its end and its open actions.
func (r *run) follow(ctx context.Context) error {
	found, err := r.caller.Find(ctx, r.now.RequestID)
	if err != nil {
		return err
	}
	r.now.AgentID, r.now.ThreadID, r.open, r.end = found.AgentID, found.ThreadID, nil, nil
	ids, err := wire.Accepted(r.now.RequestID, r.now.ThreadID)
	if err == nil {
		err = r.prompt.Send(ids)
	}
	if err != nil {
		return err
	}
	frames, err := r.server.Logs.Open(ctx, found, 0)
	if err != nil {
		return err
	}
	enc, err := wire.Codec{}.Encoder(codec.Options{})
	if err != nil {
		frames.Close()
		return err
	}
	return r.caller.Follow(ctx, frames, func(f event.Frame) error { return r.add(enc, f) })
}

// add sends the chunks of a frame.
func (r *run) add(enc codec.Encoder, f event.Frame) error {
	chunks, err := enc.Append(nil, f)
	if err != nil {
		return err
	}
	for chunk := range bytes.Lines(chunks) {
		if err := r.prompt.Send(bytes.TrimSuffix(chunk, []byte("\n"))); err != nil {
			return err
		}
	}
	for line := range f.Each() {
		if line.Name != event.NameContinuation && !line.Name.IsTerminal() {
			continue
		}
		e, err := event.Decode(line.JSON)
		if err != nil {
			return err
		}
		if action, ok := e.Body.(event.Continuation); ok {
			r.open = append(r.open, action)
			continue
		}
		r.end = e.Body
		if done, ok := e.Body.(event.Done); !ok || done.FinishReason != event.FinishActionRequired {
			r.open = nil
		}
	}
	return nil
}

// failureOf returns the error of a request that has failed.
func failureOf(end event.Body) error {
	switch b := end.(type) {
	case event.Done:
		return nil
	case event.Error:
		f := apierr.New(b.Code, "%s", b.Message)
		f.Retryable = b.Retryable
		return f
	case event.Aborted:
		return apierr.New(apierr.RequestFinished, "the request was aborted: %s", b.Reason)
	}
	return errors.New("the log ended without a terminal event")
}

// next returns the request that follows the current one on its thread, and waits until it is there.
func (r *run) next(ctx context.Context) (requestID string, err error) {
	records, err := r.server.Bus.FollowThread(ctx, r.caller.Principal().Tenant, r.now.ThreadID, 0)
	if err != nil {
		return "", authz.Unavailable(err)
	}
	defer records.Close()
	passed := false
	for {
		t, err := records.Next(ctx, r.server.Streamer.Heartbeat())
		switch {
		case errors.Is(err, bus.ErrIdle):
			continue
		case err != nil:
			return "", err
		case t.Deleted:
			return "", apierr.New(apierr.ThreadNotFound, "the thread was deleted")
		case passed:
			return t.RequestID, nil
		}
		passed = t.RequestID == r.now.RequestID
	}
}
