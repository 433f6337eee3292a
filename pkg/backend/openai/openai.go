// Package openai is the backends for models with OpenAI's APIs, streamed: chat completions ([New]) of OpenAI itself and any
// compatible server at another address, and responses ([NewResponses]).
//
// Read request.go for requests, stream.go for responses, fault.go for errors; the files of the Responses API begin with
// responses.
package openai

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/redact"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// DefaultBaseURL is the address of OpenAI itself.
const DefaultBaseURL = "https://api.openai.com/v1"

// Options say which server to call. Nothing is taken from the environment.
type Options struct {
	BaseURL string // up to and with "/v1"; a query in it is sent with each request; default DefaultBaseURL
	APIKey  string // "" sends none, as local servers like it
	Name    string // of the provider, in messages to people; default "OpenAI"
	KeyEnv  string // the variable that the key came from, for the same messages; default OPENAI_API_KEY
	BaseEnv string // what the address came from, for the same messages; default OPENAI_BASE_URL
	Retries int    // further attempts before the first byte of an answer; 0 = 2, negative = none
	Client  *http.Client

	Headers map[string]string // sent with each request
	Query   map[string]string // added to the address

	ReturnThinking ReturnThinking // "" = as the model's provider asks for it
	ThinkTags      bool           // text between <think> and </think> is thinking
}

// ReturnThinking says which thinking of earlier turns a server of the chat completions API gets back.
type ReturnThinking string

// Which thinking goes back.
const (
	ReturnNever  ReturnThinking = "never"
	ReturnTurn   ReturnThinking = "turn"   // that since the user's last message
	ReturnAlways ReturnThinking = "always" // all, once the conversation has tool calls
)

// Backend calls one server. It is safe for concurrent use.
type Backend struct {
	api         upstream.API
	completions sdk.ChatCompletionService
	returns     ReturnThinking
	thinkTags   bool
	openai      bool // the server is OpenAI's or Azure's
	google      bool // the server is Google's
}

var (
	_ backend.Model      = (*Backend)(nil)
	_ backend.Availabler = (*Backend)(nil)
	_ backend.Prober     = (*Backend)(nil)
)

// New returns a backend. It makes no call, so a wrong address or key is reported by the first turn.
func New(o Options) *Backend {
	host := hostOf(o.BaseURL)
	return &Backend{
		api: o.api(), completions: sdk.NewChatCompletionService(o.request()...), returns: o.ReturnThinking, thinkTags: o.ThinkTags,
		openai: isOpenAI(host), google: strings.HasSuffix(host, ".googleapis.com"),
	}
}

// hostOf returns the host of an address; that of OpenAI for none.
func hostOf(base string) string {
	u, err := url.Parse(cmp.Or(base, DefaultBaseURL))
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func isOpenAI(host string) bool {
	return host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com")
}

func (o Options) api() upstream.API {
	return upstream.API{
		Own: hostOf(o.BaseURL) == "api.openai.com", Address: redact.URL(o.BaseURL), Name: cmp.Or(o.Name, "OpenAI"), Key: o.APIKey,
		KeyEnv: cmp.Or(o.KeyEnv, "OPENAI_API_KEY"), BaseEnv: cmp.Or(o.BaseEnv, "OPENAI_BASE_URL"),
	}
}

// request returns what all requests have in common.
func (o Options) request() []option.RequestOption {
	base, query := upstream.SplitQuery(cmp.Or(o.BaseURL, DefaultBaseURL), o.Query)
	client := o.Client
	if client == nil {
		client = upstream.NewClient(0)
	}
	options := []option.RequestOption{
		option.WithBaseURL(base),
		option.WithHTTPClient(client),
		option.WithMaxRetries(max(0, cmp.Or(o.Retries, upstream.Retries))),
		option.WithMaxRetryDelay(upstream.MaxRetryWait),
		option.WithMiddleware(endAtQuota),
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
	return options
}

// Available implements [backend.Availabler]: OpenAI itself wants a key.
func (b *Backend) Available(context.Context) error { return b.api.Keyed() }

// Probe implements [backend.Prober].
func (b *Backend) Probe(ctx context.Context) error {
	models := sdk.NewModelService(b.completions.Options...)
	var res *http.Response
	_, err := models.List(ctx, option.WithMaxRetries(0), option.WithResponseInto(&res))
	return b.api.Probed(res, err)
}

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
	r := b.reader(turn, emit)
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
