package openai

import (
	"context"
	"net/http"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

// Responses calls one server by the Responses API. The server stores nothing: each turn has the whole conversation, with the
// reasoning of the model encrypted. It is safe for concurrent use.
type Responses struct {
	api     upstream.API
	service responses.ResponseService
}

var (
	_ backend.Model      = (*Responses)(nil)
	_ backend.Availabler = (*Responses)(nil)
)

// NewResponses returns a backend. It makes no call, so a wrong address or key is reported by the first turn.
func NewResponses(o Options) *Responses {
	return &Responses{api: o.api(), service: responses.NewResponseService(o.request()...)}
}

// Available implements [backend.Availabler]: OpenAI itself wants a key.
func (b *Responses) Available(context.Context) error { return b.api.Keyed() }

// Run implements [backend.Model].
func (b *Responses) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	params, err := b.params(turn)
	if err != nil {
		return backend.Outcome{}, err
	}
	if err := ctx.Err(); err != nil {
		return backend.Outcome{}, err
	}
	var res *http.Response
	stream := b.service.NewStreaming(ctx, params, option.WithResponseInto(&res))
	defer func() { _ = stream.Close() }() // the answer was read to its end, or it no longer matters
	r := responsesReader{emit: emit, api: b.api, model: turn.Model}
	for stream.Next() && !r.ended {
		if err := r.read(stream.Current()); err != nil {
			return r.outcome, err
		}
	}
	if err := ctx.Err(); err != nil {
		return r.outcome, err
	}
	return r.end(res, stream.Err())
}
