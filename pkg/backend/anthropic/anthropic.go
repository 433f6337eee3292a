// Package anthropic is the backend for models with Anthropic's messages API, streamed.
//
// Read request.go for requests, stream.go for responses, fault.go for errors.
package anthropic

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
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
	Retries int    // further attempts before the first byte of an answer; 0 = 2, negative = none
	Client  *http.Client
}

// Backend calls one server. It is safe for concurrent use.
type Backend struct {
	api      upstream.API
	messages sdk.MessageService
}

var (
	_ backend.Model      = (*Backend)(nil)
	_ backend.Availabler = (*Backend)(nil)
)

// New returns a backend. It makes no call, so a wrong address or key is reported by the first turn.
func New(o Options) *Backend {
	client := o.Client
	if client == nil {
		client = upstream.NewClient(0)
	}
	options := []option.RequestOption{
		option.WithBaseURL(strings.TrimSuffix(strings.TrimRight(cmp.Or(o.BaseURL, DefaultBaseURL), "/"), "/v1")),
		option.WithHTTPClient(client),
		option.WithMaxRetries(max(0, cmp.Or(o.Retries, upstream.Retries))),
		option.WithMiddleware(refuseLongWaits),
		option.WithoutOpenTelemetry(), // the runner has its own span for each turn
	}
	if o.APIKey != "" {
		options = append(options, option.WithAPIKey(o.APIKey))
	}
	return &Backend{
		api: upstream.API{
			Own: cmp.Or(o.BaseURL, DefaultBaseURL) == DefaultBaseURL, Name: cmp.Or(o.Name, "Anthropic"), Key: o.APIKey,
			KeyEnv: cmp.Or(o.KeyEnv, "ANTHROPIC_API_KEY"), BaseEnv: "ANTHROPIC_BASE_URL",
		},
		messages: sdk.NewMessageService(options...),
	}
}

// Available implements [backend.Availabler]: Anthropic itself wants a key.
func (b *Backend) Available(context.Context) error { return b.api.Keyed() }

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
	params, warning, err := b.params(turn)
	if err != nil {
		return backend.Outcome{}, err
	}
	if err := ctx.Err(); err != nil {
		return backend.Outcome{}, err
	}
	if warning != "" {
		if err := emit(backend.Warning(warning)); err != nil {
			return backend.Outcome{}, err
		}
	}
	var res *http.Response
	stream := b.messages.NewStreaming(ctx, params, option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }() // the answer was read to its end, or it no longer matters
	r := reader{emit: emit}
	for stream.Next() {
		if err := r.read(stream.Current()); err != nil {
			return r.outcome, err
		}
	}
	if err := ctx.Err(); err != nil {
		return r.outcome, err
	}
	return r.outcome, r.end(b.api, res, stream.Err())
}
