package prompts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Prompt is a message to an agent, and the stream of its responses. Its methods are safe for concurrent use.
type Prompt struct {
	Agent string
	Data  []byte

	conn    *broker.Conn
	request micro.Request

	mu    sync.Mutex
	ended bool // nothing follows in the stream
}

// Header returns a header of the message; "" without one.
func (p *Prompt) Header(name string) string { return p.request.Headers().Get(name) }

// Send sends a part of the response.
func (p *Prompt) Send(chunk []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errors.New("the response has ended")
	}
	if err := p.request.Respond(chunk); err != nil {
		return fmt.Errorf("respond to a prompt: %w", err)
	}
	return nil
}

// maxDescription is the longest description of an error, in bytes: it is a header.
const maxDescription = 200

// Fail sends an error.
func (p *Prompt) Fail(code int, description string, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	description = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, description)
	if len(description) > maxDescription {
		description = strings.ToValidUTF8(description[:maxDescription], "")
	}
	p.report(p.request.Error(strconv.Itoa(code), description, body))
}

// End ends the response. It may be called twice.
func (p *Prompt) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		p.ended = true
		p.report(p.request.Respond(nil))
	}
}

func (p *Prompt) report(err error) {
	if err != nil {
		slog.Warn("could not respond to a prompt", "agent", p.Agent, "error", err)
	}
}

// presence bounds the wait for the server to report that a subject has no subscriber.
const presence = 2 * time.Second

// Ping sends a part of the response that changes nothing, and reports whether the client still listens.
func (p *Prompt) Ping(ctx context.Context, chunk []byte) bool {
	ctx, cancel := context.WithTimeout(ctx, presence)
	defer cancel()
	_, err := p.conn.NATS.RequestWithContext(ctx, p.request.Reply(), chunk)
	return !errors.Is(err, nats.ErrNoResponders)
}

// Reply is an inbox for the answer to a question in the response. It is for one goroutine.
type Reply struct {
	Subject string
	sub     *nats.Subscription
}

// Reply returns a new inbox. Close it.
func (p *Prompt) Reply(ctx context.Context) (*Reply, error) {
	subject := p.conn.NATS.NewInbox()
	sub, err := p.conn.NATS.SubscribeSync(subject)
	if err != nil {
		return nil, fmt.Errorf("subscribe to an inbox: %w", err)
	}
	_ = sub.SetPendingLimits(maxAnswers, maxAnswerBytes) // fails on a closed connection, as Next does
	if err := p.conn.Flush(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to an inbox: %w", err), sub.Unsubscribe())
	}
	return &Reply{subject, sub}, nil
}

// The limits of what an inbox keeps.
const (
	maxAnswers     = 16
	maxAnswerBytes = 1 << 20
)

// Next waits for an answer.
func (r *Reply) Next(ctx context.Context) ([]byte, error) {
	m, err := r.sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// Close removes the inbox.
func (r *Reply) Close() { _ = r.sub.Unsubscribe() } // fails on a closed connection, which has no inboxes
