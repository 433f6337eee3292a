// Package anthropic is the backend for models with Anthropic's messages API, streamed.
//
// Read request.go for requests, model.go and thinking.go for what differs between models, stream.go for responses, fault.go
// for errors.
package anthropic

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/redact"
	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
)

// DefaultBaseURL is the address of Anthropic itself.
const DefaultBaseURL = "https://api.anthropic.com"

// Options say which server to call. Nothing is taken from the environment.
type Options struct {
	BaseURL string // with or without "/v1"; default DefaultBaseURL
	APIKey  string // "" sends none
	Name    string // of the provider, in messages to people; default "Anthropic"
	KeyEnv  string // the variable that the key came from, for the same messages; default ANTHROPIC_API_KEY
	BaseEnv string // what the address came from, for the same messages; default ANTHROPIC_BASE_URL
	Retries int    // further attempts before the first byte of an answer; 0 = 2, negative = none
	Client  *http.Client

	Headers  map[string]string // sent with each request
	Query    map[string]string // added to the address
	Uncached bool              // the provider is not asked to cache the prompt
}

// Backend calls one server. It is safe for concurrent use.
type Backend struct {
	api      upstream.API
	messages sdk.MessageService
	uncached bool
	quirks   quirks
}

var (
	_ backend.Model      = (*Backend)(nil)
	_ backend.Availabler = (*Backend)(nil)
	_ backend.Prober     = (*Backend)(nil)
)

// New returns a backend. It makes no call, so a wrong address or key is reported by the first turn.
func New(o Options) *Backend {
	client := o.Client
	if client == nil {
		client = upstream.NewClient(0)
	}
	base, query := upstream.SplitQuery(cmp.Or(o.BaseURL, DefaultBaseURL), o.Query)
	options := []option.RequestOption{
		option.WithBaseURL(strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1")),
		option.WithHTTPClient(client),
		option.WithMaxRetries(max(0, cmp.Or(o.Retries, upstream.Retries))),
		option.WithMiddleware(refuseLongWaits),
		option.WithoutOpenTelemetry(), // the runner has its own span for each turn
	}
	if o.APIKey != "" {
		options = append(options, option.WithAPIKey(o.APIKey))
	}
	for name, value := range query {
		options = append(options, option.WithQuery(name, value))
	}
	for name, value := range o.Headers {
		options = append(options, option.WithHeader(name, value))
	}
	return &Backend{
		api: upstream.API{
			Own: cmp.Or(o.BaseURL, DefaultBaseURL) == DefaultBaseURL, Address: redact.URL(o.BaseURL), Name: cmp.Or(o.Name, "Anthropic"),
			Key:    o.APIKey,
			KeyEnv: cmp.Or(o.KeyEnv, "ANTHROPIC_API_KEY"), BaseEnv: cmp.Or(o.BaseEnv, "ANTHROPIC_BASE_URL"),
		},
		messages: sdk.NewMessageService(options...), uncached: o.Uncached,
	}
}

// Available implements [backend.Availabler]: Anthropic itself wants a key.
func (b *Backend) Available(context.Context) error { return b.api.Keyed() }

// Probe implements [backend.Prober].
func (b *Backend) Probe(ctx context.Context) error {
	models := sdk.NewModelService(b.messages.Options...)
	var res *http.Response
	_, err := models.List(ctx, sdk.ModelListParams{}, option.WithMaxRetries(0), option.WithResponseInto(&res))
	return b.api.Probed(res, err)
}

// refuseLongWaits keeps the SDK from sleeping as long as a server likes before it tries again.
func refuseLongWaits(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(req)
	if err == nil && upstream.RetryAfter(res.Header, time.Now()) > upstream.MaxRetryWait {
		res.Header.Set("X-Should-Retry", "false")
	}
	return res, err
}

// Run implements [backend.Model].
func (b *Backend) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return backend.Outcome{}, err
	}
	q := b.quirks.query(turn.Model)
	for attempt := 0; ; attempt++ {
		if err := q.build(turn, !b.uncached); err != nil {
			return backend.Outcome{}, err
		}
		outcome, refusal, err := b.answer(ctx, q, emit)
		if refusal == nil || attempt == maxRemedies {
			return outcome, err
		}
		if q = b.quirks.remedy(q, refusal); q == nil {
			return outcome, err
		}
	}
}

// answer sends a request and reads the answer. A refusal is the provider's own error for the request.
func (b *Backend) answer(ctx context.Context, q *query, emit backend.Emit) (backend.Outcome, *sdk.Error, error) {
	r := reader{emit: emit, warnings: q.warnings, model: q.params.Model}
	for range maxPauses {
		r.begin()
		refusal, err := b.stream(ctx, q, &r)
		if err != nil || !r.paused {
			return r.outcome, refusal, err
		}
		message, err := r.said.message()
		if err != nil {
			return r.outcome, nil, b.api.Malformed(err)
		}
		q.params.Messages = append(q.params.Messages, message)
	}
	return r.outcome, nil, apierr.New(apierr.AgentError, "%s paused its answer more than %d times; try again", b.api.Name, maxPauses)
}

// stream reads one stream of an answer.
func (b *Backend) stream(ctx context.Context, q *query, r *reader) (refusal *sdk.Error, err error) {
	var res *http.Response
	options := []option.RequestOption{option.WithResponseInto(&res)}
	if q.bound {
		options = append(options, option.WithHeaderAdd("anthropic-beta", bindingBeta))
	}
	stream := b.messages.NewStreaming(ctx, q.params, options...)
	defer func() { _ = stream.Close() }() // the answer was read to its end, or it no longer matters
	for stream.Next() {
		if err := r.read(stream.Current()); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.events == 0 {
		refusal, _ = errors.AsType[*sdk.Error](stream.Err())
	}
	return refusal, r.end(b.api, res, stream.Err())
}

const (
	maxRemedies = 2  // further requests, changed as an error asks for
	maxPauses   = 10 // of one answer
)
