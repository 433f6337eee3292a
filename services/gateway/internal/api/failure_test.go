package api

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/fault"
)

func TestEveryCodeHasItsStatus(t *testing.T) {
	t.Parallel()
	want := map[fault.Code]int{
		fault.InvalidMessageFormat: 400, fault.InvalidActionID: 400, fault.AuthFailed: 401, fault.ThreadAccessDenied: 403,
		fault.ThreadNotFound: 404, fault.AgentNotFound: 404, fault.RequestNotFound: 404, fault.ObjectNotFound: 404, fault.RouteNotFound: 404,
		fault.ThreadBusy: 409, fault.RequestFinished: 409, fault.MessageTooLarge: 413, fault.IdempotencyMismatch: 422,
		fault.RateLimitExceeded: 429, fault.AgentError: 500, fault.ToolError: 500, fault.Internal: 500,
		fault.Unavailable: 503, fault.StreamTimeout: 504,
	}
	for _, code := range fault.Codes() {
		if got := statusOf(code); got != want[code] {
			t.Errorf("%s: got %d, want %d", code, got, want[code])
		}
	}
}

func TestRetryAfterIsInWholeSeconds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		f    fault.Error
		want int
	}{
		{fault.Error{Code: fault.RateLimitExceeded, RetryAfter: time.Millisecond}, 1},
		{fault.Error{Code: fault.RateLimitExceeded, RetryAfter: 1500 * time.Millisecond}, 2},
		{fault.Error{Code: fault.Unavailable}, 1},
		{fault.Error{Code: fault.Internal}, 0},
	}
	for _, test := range tests {
		if got := retryAfter(&test.f); got != test.want {
			t.Errorf("%+v: got %d, want %d", test.f, got, test.want)
		}
	}
}
