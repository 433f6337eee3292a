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

// Handler answers one kind of question. The answer becomes JSON; an error travels as a fault.
type Handler func(ctx context.Context, question []byte) (answer any, err error)

const (
	headerFault = "Agentbus-Fault" // "true" when the answer is a fault
	headerMore  = "Agentbus-More"  // "true" when more parts of the answer follow

	answerPart        = 512 << 10 // bytes of one message of an answer
	concurrentAnswers = 64
	askWait           = 15 * time.Second
)

// wireFault is how a fault travels between services.
type wireFault struct {
	Code         apierr.Code `json:"code"`
	Message      string      `json:"message"`
	Retryable    bool        `json:"retryable"`
	RetryAfterMS int64       `json:"retryAfterMs,omitzero"`
}

// Serve answers questions to a service until ctx is done, then waits for the answers under way. Processes that serve
// the same name share the questions.
func (b *Peer) Serve(ctx context.Context, service string, verbs map[string]Handler) error {
	server, err := micro.AddService(b.conn.NATS, micro.Config{
		Name: b.conn.Prefix + "-" + service, Version: "1.0.0", QueueGroup: service,
	})
	if err != nil {
		return fmt.Errorf("serve %s: %w", service, err)
	}
	s := answerer{bus: b, places: make(chan struct{}, concurrentAnswers)}
	for verb, handle := range verbs {
		subject, err := b.conn.Subject(broker.KindQuery, service, verb)
		if err != nil {
			return err
		}
		handler := micro.HandlerFunc(func(req micro.Request) { s.answer(ctx, req, handle) })
		if err := server.AddEndpoint(verb, handler, micro.WithEndpointSubject(subject)); err != nil {
			return fmt.Errorf("serve %s.%s: %w", service, verb, err)
		}
	}
	<-ctx.Done()
	err = server.Stop()
	for range concurrentAnswers { // every place free means that every answer is given
		s.places <- struct{}{}
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("stop serving %s: %w", service, err)
	}
	return nil
}

// answerer gives each question a goroutine of its own, up to a limit: an answer may have to wait for something.
type answerer struct {
	bus    *Peer
	places chan struct{}
}

func (s answerer) answer(ctx context.Context, req micro.Request, handle Handler) {
	s.places <- struct{}{}
	go func() {
		defer func() { <-s.places }()
		ctx, cancel := context.WithTimeout(broker.Extract(context.WithoutCancel(ctx), nats.Header(req.Headers())), askWait)
		defer cancel()
		answer, err := handle(ctx, req.Data())
		if err := respond(req, answer, err); err != nil {
			slog.WarnContext(ctx, "could not answer", "subject", req.Subject(), "error", err)
		}
	}()
}

// respond sends an answer, or a fault in its place, in as many messages as it takes.
func respond(req micro.Request, answer any, err error) error {
	header := micro.Headers{}
	if err != nil {
		f := apierr.From(err)
		if f.Code == apierr.Internal {
			slog.Error("question failed", "subject", req.Subject(), "error", err)
		}
		answer = wireFault{f.Code, f.Message, f.Retryable, f.RetryAfter.Milliseconds()}
		header[headerFault] = []string{"true"}
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	for len(body) > answerPart {
		more := micro.Headers{headerMore: {"true"}}
		if err := req.Respond(body[:answerPart], micro.WithHeaders(more)); err != nil {
			return err
		}
		body = body[answerPart:]
	}
	return req.Respond(body, micro.WithHeaders(header))
}

// Ask sends a question to a service and decodes its answer. A fault of the service comes back as a *apierr.Error. When
// nobody answers, the error is apierr.Unavailable.
func (b *Peer) Ask(ctx context.Context, service, verb string, question, answer any) error {
	subject, err := b.conn.Subject(broker.KindQuery, service, verb)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	msg, err := broker.NewMessage(ctx, subject, question)
	if err != nil {
		return err
	}
	body, isFault, err := b.exchange(ctx, msg)
	// A service that is being replaced is back soon.
	for late := time.Now().Add(absence); errors.Is(err, nats.ErrNoResponders) && time.Now().Before(late); {
		if broker.Pause(ctx, absence/10) != nil {
			break
		}
		body, isFault, err = b.exchange(ctx, msg)
	}
	if err != nil {
		return apierr.Wrap(err, apierr.Unavailable, "the %s service does not answer; try again", service)
	}
	if isFault {
		var f wireFault
		if err := json.Unmarshal(body, &f); err != nil {
			return fmt.Errorf("decode fault of %s.%s: %w", service, verb, err)
		}
		err := apierr.New(f.Code, "%s", f.Message)
		err.Retryable = f.Retryable
		err.RetryAfter = time.Duration(f.RetryAfterMS) * time.Millisecond
		return err
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("decode answer of %s.%s: %w", service, verb, err)
	}
	return nil
}

// absence is how long a question waits for a service that nobody serves.
const absence = 500 * time.Millisecond

// exchange sends a question and collects the parts of its answer.
func (b *Peer) exchange(ctx context.Context, msg *nats.Msg) (body []byte, isFault bool, err error) {
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
			return body, part.Header.Get(headerFault) != "", nil
		}
	}
}
