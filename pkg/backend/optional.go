package backend

import (
	"context"

	"github.com/agentbus/agentbus/pkg/event"
)

// Availabler is a backend that knows whether it can work here (S1, available?).
type Availabler interface {
	// Available says why it cannot, as a sentence with its cure: a program that is not installed, a key that is missing.
	Available(ctx context.Context) error
}

// Available is why b cannot work here; nil when it can, or does not know.
func Available(ctx context.Context, b Backend) error {
	if a, ok := Find[Availabler](b); ok {
		return a.Available(ctx)
	}
	return nil
}

// CostEstimator is a backend that knows what an answer costs where its Usage does not say (S1, estimate_cost): by a
// subscription's own units, or by the price of its tokens.
type CostEstimator interface {
	EstimateCost(outcome Outcome) float64
}

// EstimateCost is what an answer of b costs; 0 when b does not know.
func EstimateCost(b Backend, outcome Outcome) float64 {
	if e, ok := Find[CostEstimator](b); ok {
		return e.EstimateCost(outcome)
	}
	return outcome.Usage.CostUSD
}

// UsageReporter is a backend that counts what its sessions use (S1, get_usage).
type UsageReporter interface {
	// Usage is what the session has used, and what all sessions have in the current periods; false = not known.
	Usage(ctx context.Context, sessionID string) (Periods, bool)
}

// Periods is usage by period. Days and months are those of UTC.
type Periods struct {
	Session event.Usage
	Day     event.Usage
	Month   event.Usage
}

// Usage is what a session of b has used; false when b does not count.
func Usage(ctx context.Context, b Backend, sessionID string) (Periods, bool) {
	if r, ok := Find[UsageReporter](b); ok {
		return r.Usage(ctx, sessionID)
	}
	return Periods{}, false
}

// Transport says what stands behind a backend (S1, transport_type).
type Transport string

// The transports.
const (
	LLM        Transport = "llm"         // a model behind an API: tools and conversation are the runner's
	LocalAgent Transport = "local_agent" // a program on this machine, with tools and sessions of its own
	Remote     Transport = "remote"      // an agent on another machine
	ACP        Transport = "acp"         // a program that speaks the Agent Client Protocol
)

// Transporter is a backend that is no model behind an API.
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

// Find gives the T that b is, or that stands behind it where b is a wrapper ([Around], [Stateless]).
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
