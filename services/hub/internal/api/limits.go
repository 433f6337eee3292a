package api

import (
	"context"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/limit"
)

// limits bound how often an address may present wrong credentials, and how often an API key or an agent may call. They
// count for one process.
type limits struct {
	guesses *limit.Rates // by network, of API keys, agents' keys and set-up tokens alike
	calls   *limit.Rates // by API key or agent
}

// guessRate is what a gateway grants, too.
func guessRate() limit.Rate { return limit.Rate{Requests: 60, Per: time.Minute, Burst: 60} }

// guessed counts err if it refuses credentials, and returns the error for the caller. Valid credentials are never delayed.
func (a *API) guessed(r *http.Request, err error) error {
	if apierr.CodeOf(err) != apierr.AuthFailed {
		return err
	}
	if wait, ok := a.limits.guesses.Allow(limit.Network(r.RemoteAddr)); !ok {
		return tooMany(wait)
	}
	return err
}

// paced counts a call of a caller whose credentials are valid.
func (a *API) paced(caller string) error {
	if wait, ok := a.limits.calls.Allow(caller); !ok {
		return tooMany(wait)
	}
	return nil
}

func tooMany(wait time.Duration) error {
	f := apierr.New(apierr.RateLimitExceeded, "too many requests; wait as long as Retry-After says")
	f.RetryAfter = max(wait, time.Second)
	return f
}

type principalKey struct{}

// Guard lets only callers with a good API key pass to next, which finds the caller with [PrincipalOf].
func (a *API) Guard(scope auth.Scope, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, err := a.principal(r, scope)
		if err != nil {
			a.fail(w, r, a.guessed(r, err))
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, p)))
	})
}

// PrincipalOf returns the caller of a request that passed [API.Guard].
func PrincipalOf(r *http.Request) (auth.Principal, error) {
	p, ok := r.Context().Value(principalKey{}).(auth.Principal)
	if !ok {
		return auth.Principal{}, apierr.New(apierr.AuthFailed, "send an API key: Authorization: Bearer KEY")
	}
	return p, nil
}
