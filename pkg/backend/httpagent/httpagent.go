// Package httpagent is the backend for agents that implement agentbus's own contract over HTTP: schemas/agent. A turn is a
// POST with the conversation, and the answer is a stream of chunks, as lines of JSON or as server-sent events.
//
// Read request.go for what the agent gets, chunk.go for what it answers.
package httpagent

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	// Version is the version of the contract. It changes when an agent of the earlier one would misread a request.
	Version = "1"
	// VersionHeader is the header of requests that has it.
	VersionHeader = "Agentbus-Agent-Version"
)

// Options configure the agent.
type Options struct {
	URL        string
	Headers    map[string]string // sent with each request
	Query      map[string]string // added to URL
	APIKey     string            // sent as a bearer token; "" = none is sent
	KeyEnv     string            // the variable that holds it
	SigningKey string            // whsec_ and base64, as Standard Webhooks defines it; "" = requests are not signed
	SigningEnv string            // the variable that holds it; with it SigningKey is required
	Quiet      time.Duration     // how long an answer may be silent; default 5 minutes
	Client     *http.Client      // default: one without a limit on the length of answers
	Retries    int               // of requests that the agent did not begin; default 2, negative = none
}

// Backend is one agent. It is safe for concurrent use.
type Backend struct {
	agent   upstream.Agent
	signing *standardwebhooks.Webhook // nil = requests are not signed
	invalid error                     // why no request can be sent
}

var (
	_ backend.Backend     = (*Backend)(nil)
	_ backend.Availabler  = (*Backend)(nil)
	_ backend.Transporter = (*Backend)(nil)
)

// New returns the backend of an agent.
func New(o Options) *Backend {
	b := &Backend{agent: upstream.Agent{
		URL: o.URL, Headers: o.Headers, Query: o.Query, Key: o.APIKey, KeyEnv: o.KeyEnv, Quiet: o.Quiet, Client: o.Client, Retries: o.Retries,
	}.WithDefaults()}
	if o.SigningKey == "" && o.SigningEnv == "" {
		return b
	}
	var err error
	if b.signing, err = standardwebhooks.NewWebhook(o.SigningKey); err != nil || o.SigningKey == "" {
		b.invalid = apierr.New(apierr.AgentError, "the key that signs the requests to the agent is missing or is not base64; set %s, such as whsec_ and base64",
			cmp.Or(o.SigningEnv, "it"))
	}
	return b
}

// Transport implements [backend.Transporter].
func (*Backend) Transport() backend.Transport { return backend.Remote }

// Available implements [backend.Availabler].
func (b *Backend) Available(context.Context) error { return b.invalid }

// Start implements [backend.Backend]. Nothing is sent before the first turn.
func (b *Backend) Start(_ context.Context, start backend.Start) (backend.Session, error) {
	return &session{backend: b, state: start.State}, nil
}

// session is a conversation with the agent. Between turns it holds only the state that the agent gave.
type session struct {
	backend *Backend
	state   backend.State
}

// Stop implements [backend.Session].
func (*session) Stop(context.Context) error { return nil }

// Send implements [backend.Session].
func (s *session) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return backend.Outcome{}, err
	}
	b := s.backend
	if b.invalid != nil {
		return backend.Outcome{}, b.invalid
	}
	body, err := encode(turn, s.state.ID)
	if err != nil {
		return backend.Outcome{}, err
	}
	header, err := b.header(turn, body)
	if err != nil {
		return backend.Outcome{}, err
	}
	agent := b.agent.Named(turn.AgentID)
	res, err := agent.Send(ctx, upstream.Request{Body: body, Header: header})
	if err != nil {
		return backend.Outcome{}, err
	}
	defer func() { _ = res.Body.Close() }() // the answer was read to its end, or it no longer matters
	stream, err := agent.Stream(res)
	if err != nil {
		return backend.Outcome{}, err
	}
	r := newReader(s, agent, emit)
	r.outcome.Model = cmp.Or(turn.Model, turn.AgentID, "agent")
	err = r.read(stream)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return r.outcome, err
}

// header returns the headers of the contract: the version, and the signature.
func (b *Backend) header(turn backend.Turn, body []byte) (http.Header, error) {
	header := http.Header{
		http.CanonicalHeaderKey(VersionHeader): {Version}, "Accept": {"application/x-ndjson, text/event-stream"},
	}
	id, now := messageID(turn), time.Now()
	header.Set(standardwebhooks.HeaderWebhookID, id)
	if b.signing == nil {
		return header, nil
	}
	signature, err := b.signing.Sign(id, now, body)
	if err != nil {
		return nil, fmt.Errorf("sign the request to the agent: %w", err)
	}
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return header, nil
}

// messageID identifies a turn: it is the same whenever the same attempt of it is sent.
func messageID(turn backend.Turn) string {
	return fmt.Sprintf("%s.%d.%d", turn.RequestID, len(turn.Messages), turn.Attempt)
}

// finishReasons are those that an agent may give.
func finishReasons() []event.FinishReason {
	return []event.FinishReason{
		event.FinishStop, event.FinishLength, event.FinishMaxTurns, event.FinishBudget, event.FinishContentFilter, event.FinishRefusal,
	}
}
