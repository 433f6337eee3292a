// Package rpc is request and response between services.
package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Peer sends requests to services and serves them. It is safe for concurrent use.
type Peer struct {
	conn *broker.Conn
}

// New returns the peer that uses a connection.
func New(conn *broker.Conn) *Peer { return &Peer{conn: conn} }

// Handler handles one kind of request. The response is encoded as JSON; an error is sent as an API error.
type Handler func(ctx context.Context, request []byte) (response any, err error)

const (
	headerError = "Agentbus-Fault" // "true" if the response is an API error
	headerMore  = "Agentbus-More"  // "true" if more parts of the response follow

	responsePart   = 512 << 10 // bytes of one message of a response
	maxConcurrent  = 64
	requestTimeout = 15 * time.Second
)

// wireError is the encoding of an API error.
type wireError struct {
	Code         apierr.Code `json:"code"`
	Message      string      `json:"message"`
	Retryable    bool        `json:"retryable"`
	RetryAfterMS int64       `json:"retryAfterMs,omitzero"`
}

// Serve handles the requests to a service until ctx is done, then waits for running handlers. Instances that serve the same
// name share the requests.
func (b *Peer) Serve(ctx context.Context, service string, verbs map[string]Handler) error {
	server, err := micro.AddService(b.conn.NATS, micro.Config{
		Name: b.conn.Prefix + "-" + service, Version: "1.0.0", QueueGroup: service,
	})
	if err != nil {
		return fmt.Errorf("serve %s: %w", service, err)
	}
	s := responder{bus: b, slots: make(chan struct{}, maxConcurrent)}
	for verb, handle := range verbs {
		subject, err := b.conn.Subject(broker.KindQuery, service, verb)
		if err != nil {
			return err
		}
		handler := micro.HandlerFunc(func(req micro.Request) { s.handle(ctx, req, handle) })
		if err := server.AddEndpoint(verb, handler, micro.WithEndpointSubject(subject)); err != nil {
			return fmt.Errorf("serve %s.%s: %w", service, verb, err)
		}
	}
	<-ctx.Done()
	err = server.Stop()
	for range maxConcurrent { // every place free means that every response is given
		s.slots <- struct{}{}
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("stop serving %s: %w", service, err)
	}
	return nil
}

// responder handles each request in a separate goroutine, up to a limit: a handler may have to wait.
type responder struct {
	bus   *Peer
	slots chan struct{}
}

func (s responder) handle(ctx context.Context, req micro.Request, handle Handler) {
	s.slots <- struct{}{}
	go func() {
		defer func() { <-s.slots }()
		ctx, cancel := context.WithTimeout(broker.Extract(context.WithoutCancel(ctx), nats.Header(req.Headers())), requestTimeout)
		defer cancel()
		response, err := handle(ctx, req.Data())
		if err := respond(req, response, err); err != nil {
			slog.WarnContext(ctx, "could not respond", "subject", req.Subject(), "error", err)
		}
	}()
}

// respond sends a response, or an API error in its place, in as many messages as needed.
func respond(req micro.Request, response any, err error) error {
	header := micro.Headers{}
	if err != nil {
		f := apierr.From(err)
		if f.Code == apierr.Internal {
			slog.Error("request failed", "subject", req.Subject(), "error", err)
		}
		response = wireError{f.Code, f.Message, f.Retryable, f.RetryAfter.Milliseconds()}
		header[headerError] = []string{"true"}
	}
	body, err := json.Marshal(response)
	if err != nil {
		return fmt.Errorf("encode response: %w", err)
	}
	for len(body) > responsePart {
		more := micro.Headers{headerMore: {"true"}}
		if err := req.Respond(body[:responsePart], micro.WithHeaders(more)); err != nil {
			return err
		}
		body = body[responsePart:]
	}
	return req.Respond(body, micro.WithHeaders(header))
}

// Ask sends a request to a service and decodes its response. An API error of the service is returned as *apierr.Error;
// apierr.Unavailable means that no instance responded.
func (b *Peer) Ask(ctx context.Context, service, verb string, request, response any) error {
	subject, err := b.conn.Subject(broker.KindQuery, service, verb)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := broker.NewMessage(ctx, subject, request)
	if err != nil {
		return err
	}
	body, failed, err := b.exchange(ctx, msg)
	// A service that is being replaced is back soon.
	for late := time.Now().Add(absence); errors.Is(err, nats.ErrNoResponders) && time.Now().Before(late); {
		if broker.Pause(ctx, absence/10) != nil {
			break
		}
		body, failed, err = b.exchange(ctx, msg)
	}
	if err != nil {
		return apierr.Wrap(err, apierr.Unavailable, "the %s service does not respond; try again", service)
	}
	if failed {
		var f wireError
		if err := json.Unmarshal(body, &f); err != nil {
			return fmt.Errorf("decode error of %s.%s: %w", service, verb, err)
		}
		err := apierr.New(f.Code, "%s", f.Message)
		err.Retryable = f.Retryable
		err.RetryAfter = time.Duration(f.RetryAfterMS) * time.Millisecond
		return err
	}
	if err := json.Unmarshal(body, response); err != nil {
		return fmt.Errorf("decode response of %s.%s: %w", service, verb, err)
	}
	return nil
}

// absence is how long a request waits for a service that has no instance.
const absence = 500 * time.Millisecond

// exchange sends a request and collects the parts of its response.
func (b *Peer) exchange(ctx context.Context, msg *nats.Msg) (body []byte, failed bool, err error) {
	inbox := b.conn.NATS.NewInbox()
	sub, err := b.conn.NATS.SubscribeSync(inbox)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	msg.Reply = inbox
	if err := b.conn.NATS.PublishMsg(msg); err != nil {
		return nil, false, err
	}
	for {
		part, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, false, err
		}
		if part.Header.Get("Status") == "503" {
			return nil, false, nats.ErrNoResponders
		}
		body = append(body, part.Data...)
		if part.Header.Get(headerMore) == "" {
			return body, part.Header.Get(headerError) != "", nil
		}
	}
}
