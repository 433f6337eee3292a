package api

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

func TestEveryCodeHasItsStatus(t *testing.T) {
	t.Parallel()
	want := map[apierr.Code]int{
		apierr.InvalidMessageFormat: 400, apierr.InvalidActionID: 400, apierr.AuthFailed: 401, apierr.ThreadAccessDenied: 403,
		apierr.ThreadNotFound: 404, apierr.AgentNotFound: 404, apierr.RequestNotFound: 404, apierr.ObjectNotFound: 404, apierr.RouteNotFound: 404,
		apierr.ThreadBusy: 409, apierr.RequestFinished: 409, apierr.MessageTooLarge: 413, apierr.IdempotencyMismatch: 422,
		apierr.RateLimitExceeded: 429, apierr.AgentError: 500, apierr.ToolError: 500, apierr.Internal: 500,
		apierr.Unavailable: 503, apierr.StreamTimeout: 504,
	}
	for _, code := range apierr.Codes() {
		if got := statusOf(code); got != want[code] {
			t.Errorf("%s: got %d, want %d", code, got, want[code])
		}
	}
}

func TestRetryAfterIsInWholeSeconds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		f    apierr.Error
		want int
	}{
		{apierr.Error{Code: apierr.RateLimitExceeded, RetryAfter: time.Millisecond}, 1},
		{apierr.Error{Code: apierr.RateLimitExceeded, RetryAfter: 1500 * time.Millisecond}, 2},
		{apierr.Error{Code: apierr.Unavailable}, 1},
		{apierr.Error{Code: apierr.Internal}, 0},
	}
	for _, test := range tests {
		if got := retryAfter(&test.f); got != test.want {
			t.Errorf("%+v: got %d, want %d", test.f, got, test.want)
		}
	}
}
