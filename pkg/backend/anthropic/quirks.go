package anthropic

import (
	"net/http"
	"strings"
	"sync"

	sdk "github.com/anthropics/anthropic-sdk-go"
)

// quirks is what the errors of a server have shown about its models, since their names do not show everything.
type quirks struct {
	mu     sync.Mutex
	models map[string]quirk
}

type quirk struct {
	switched bool // the model thinks in the other way than its name says
	unbound  bool // the server does not accept block_binding
}

// maxQuirks bounds the models that are remembered: requests may name any.
const maxQuirks = 1000

func (q *quirks) of(model string) quirk {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.models[model]
}

// query returns an empty request to a model.
func (q *quirks) query(model string) *query {
	known, t := q.of(model), traitsOf(model)
	if known.switched {
		t.adaptive, t.preserved = !t.adaptive, false
	}
	return &query{traits: t, unbound: known.unbound}
}

// remedy returns the request that may succeed where the provider refused one; nil without one.
func (q *quirks) remedy(sent *query, refusal *sdk.Error) *query {
	if refusal.StatusCode != http.StatusBadRequest {
		return nil
	}
	model, text := sent.params.Model, refusal.RawJSON()
	known := q.of(model)
	switch {
	case !sent.plain && (strings.Contains(text, "bound to a different conversation") || strings.Contains(text, "Invalid `signature`")):
		next := q.query(model)
		next.plain = true
		return next
	case sent.bound && (strings.Contains(text, "block_binding") || strings.Contains(text, "anthropic-beta")):
		known.unbound = true
	case sent.thinks() && !known.switched && rejectsThinking(text):
		known.switched = true
	default:
		return nil
	}
	q.learn(model, known)
	next := q.query(model)
	next.plain = sent.plain
	return next
}

// rejectsThinking reports whether an error says that the model thinks in another way than it was asked to.
func rejectsThinking(text string) bool {
	return strings.Contains(text, "thinking.type") || strings.Contains(text, "adaptive") || strings.Contains(text, "budget_tokens")
}

func (q *quirks) learn(model string, known quirk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.models == nil || len(q.models) >= maxQuirks {
		q.models = map[string]quirk{}
	}
	q.models[model] = known
}
