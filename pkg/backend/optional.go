package backend

import (
	"context"
	"errors"
)

// ErrEnds is the cause of the context of a turn, for [errors.Is], if the request ends with the cancellation: a run on another
// server is cancelled then. After any other cause another runner continues the request.
var ErrEnds = errors.New("the request ends")

// Causes of an *apierr.Error of a turn, for [errors.Is].
var (
	// ErrTooLong: the conversation is longer than the model can read.
	ErrTooLong = errors.New("the conversation is too long for the model")
	// ErrUnavailable: the provider does not serve the model to this account, or has no such model. Another model may answer.
	ErrUnavailable = errors.New("the provider does not serve the model")
	// ErrCut: the connection to an agent broke off in the middle of a turn. The turn may be sent again, with the calls that the
	// agent has run until then in its conversation.
	ErrCut = errors.New("the connection to the agent was cut")
)

// Availabler is a backend that can check whether it works on this machine (agentic, available?).
type Availabler interface {
	// Available says why it cannot, as a sentence with its cure: a program that is not installed, a key that is missing.
	Available(ctx context.Context) error
}

// Available returns why b cannot work here; nil if it can, or has no check.
func Available(ctx context.Context, b Backend) error {
	if a, ok := Find[Availabler](b); ok {
		return a.Available(ctx)
	}
	return nil
}

// ErrKeyRefused is in the error of a Probe whose provider does not accept the key.
var ErrKeyRefused = errors.New("the provider does not accept the key")

// Prober is a backend that can ask its provider whether it would answer, without cost.
type Prober interface {
	// Probe returns why the provider would not answer, as a sentence with its remedy.
	Probe(ctx context.Context) error
}

// Probe asks the provider of b; nil if it would answer, or b has no provider to ask.
func Probe(ctx context.Context, b Backend) error {
	if p, ok := Find[Prober](b); ok {
		return p.Probe(ctx)
	}
	return nil
}

// CostEstimator is a backend that can compute the cost of an answer whose Usage has none (agentic, estimate_cost): from
// a subscription's units, or from the price of its tokens.
type CostEstimator interface {
	EstimateCost(outcome Outcome) float64
}

// EstimateCost returns the cost of an answer of b; 0 if unknown.
func EstimateCost(b Backend, outcome Outcome) float64 {
	if e, ok := Find[CostEstimator](b); ok {
		return e.EstimateCost(outcome)
	}
	return outcome.Usage.CostUSD
}

// Transport is the kind of a backend (agentic, transport_type).
type Transport string

// The transports.
const (
	LLM        Transport = "llm"         // a model with an API: the runner has the tools and the conversation
	LocalAgent Transport = "local_agent" // a program on this machine with its own tools and sessions
	Remote     Transport = "remote"      // an agent on another machine
	ACP        Transport = "acp"         // a program that speaks the Agent Client Protocol
)

// Transporter is a backend other than a model with an API.
type Transporter interface {
	Transport() Transport
}

// TransportOf is the transport of b.
func TransportOf(b Backend) Transport {
	if t, ok := Find[Transporter](b); ok {
		return t.Transport()
	}
	return LLM
}

// Find returns b as a T, or the backend that b wraps ([Around], [Stateless]).
func Find[T any](b Backend) (t T, ok bool) {
	var v any = b
	for {
		if t, ok = v.(T); ok {
			return t, true
		}
		u, wraps := v.(interface{ Unwrap() any })
		if !wraps {
			return t, false
		}
		v = u.Unwrap()
	}
}
