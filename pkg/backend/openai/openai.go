// Package openai is the backend for models with OpenAI's chat completions API, streamed: OpenAI itself, and any
// compatible server at another address.
//
// Read request.go for requests, stream.go for responses, fault.go for errors.
package openai

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// DefaultBaseURL is the address of OpenAI itself.
const DefaultBaseURL = "https://api.openai.com/v1"

// Options say which server to call. Nothing is taken from the environment.
type Options struct {
	BaseURL string // up to and with "/v1"; default DefaultBaseURL
	APIKey  string // "" sends none, as local servers like it
	Name    string // of the provider, in messages to people; default "OpenAI"
	KeyEnv  string // the variable that the key came from, for the same messages; default OPENAI_API_KEY
	Retries int    // further attempts before the first byte of an answer; 0 = 2, negative = none
	Client  *http.Client
}

// Backend calls one server. It is safe for concurrent use.
type Backend struct {
	api         upstream.API
	completions sdk.ChatCompletionService
}

var (
	_ backend.Model      = (*Backend)(nil)
	_ backend.Availabler = (*Backend)(nil)
)

// New returns a backend. It makes no call, so a wrong address or key is reported by the first turn.
func New(o Options) *Backend {
	base := cmp.Or(o.BaseURL, DefaultBaseURL)
	retries := cmp.Or(o.Retries, upstream.Retries)
	client := o.Client
	if client == nil {
		client = upstream.NewClient(0)
	}
	options := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithHTTPClient(client),
		option.WithMaxRetries(max(0, retries)),
		option.WithMaxRetryDelay(upstream.MaxRetryWait),
	}
	if o.APIKey != "" {
		options = append(options, option.WithAPIKey(o.APIKey))
	}
	return &Backend{
		api: upstream.API{
			Own: strings.HasPrefix(base, "https://api.openai.com/"), Name: cmp.Or(o.Name, "OpenAI"), Key: o.APIKey,
			KeyEnv: cmp.Or(o.KeyEnv, "OPENAI_API_KEY"), BaseEnv: "OPENAI_BASE_URL",
		},
		completions: sdk.NewChatCompletionService(options...),
	}
}

// Available implements [backend.Availabler]: OpenAI itself wants a key.
func (b *Backend) Available(context.Context) error { return b.api.Keyed() }

// Run implements [backend.Model].
func (b *Backend) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	params, err := b.params(turn)
	if err != nil {
		return backend.Outcome{}, err
	}
	if err := ctx.Err(); err != nil {
		return backend.Outcome{}, err
	}
	var res *http.Response
	stream := b.completions.NewStreaming(ctx, params, option.WithResponseInto(&res))
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
	return r.end(b.api, res, stream.Err())
}
