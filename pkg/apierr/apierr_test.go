package apierr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
)

func TestFromFindsTheFaultInAChain(t *testing.T) {
	t.Parallel()
	want := apierr.New(apierr.ThreadBusy, "thread %s is busy", "thr_1")
	err := fmt.Errorf("accept: %w", fmt.Errorf("advance: %w", want))
	if got := apierr.From(err); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := apierr.CodeOf(err); got != apierr.ThreadBusy {
		t.Errorf("got %s, want %s", got, apierr.ThreadBusy)
	}
}

func TestFromHidesWhatHasNoCode(t *testing.T) {
	t.Parallel()
	secret := errors.New("dial tcp 10.0.0.7:5432: password rejected")
	got := apierr.From(secret)
	if got.Code != apierr.Internal || !got.Retryable {
		t.Errorf("got %s, retryable %v; want a retryable internal_error", got.Code, got.Retryable)
	}
	if strings.Contains(got.Message, "10.0.0.7") {
		t.Errorf("the message gives the cause away: %s", got.Message)
	}
	if !errors.Is(got, secret) || !strings.Contains(got.Error(), "password") {
		t.Error("the cause is lost to logs")
	}
}

func TestNilIsNotAnError(t *testing.T) {
	t.Parallel()
	if got := apierr.From(nil); got != nil {
		t.Errorf("From(nil) is %v", got)
	}
	if got := apierr.CodeOf(nil); got != "" {
		t.Errorf("CodeOf(nil) is %q", got)
	}
}

func TestWrapHidesCauseFromClients(t *testing.T) {
	t.Parallel()
	err := apierr.Wrap(io.ErrUnexpectedEOF, apierr.Unavailable, "the broker went away; try again")
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("errors.Is does not find the cause")
	}
	if err.Message != "the broker went away; try again" {
		t.Errorf("the message is %q", err.Message)
	}
	if got, want := err.Error(), "unavailable: the broker went away; try again: unexpected EOF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := apierr.New(apierr.AgentError, "no").Error(), "agent_error: no"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCodesThatMeanTryAgain(t *testing.T) {
	t.Parallel()
	want := []apierr.Code{apierr.RateLimitExceeded, apierr.StreamTimeout, apierr.ThreadBusy, apierr.Unavailable}
	var got []apierr.Code
	for _, code := range apierr.Codes() {
		if code.Retryable() != apierr.New(code, "x").Retryable {
			t.Errorf("%s: a new fault and its code disagree about a retry", code)
		}
		if code.Retryable() {
			got = append(got, code)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCodesAreListedOnce(t *testing.T) {
	t.Parallel()
	seen := map[apierr.Code]bool{}
	for _, code := range apierr.Codes() {
		if seen[code] {
			t.Errorf("%s is listed twice", code)
		}
		seen[code] = true
	}
}

func TestContextErrorsAreInternal(t *testing.T) {
	t.Parallel()
	if got := apierr.CodeOf(context.Canceled); got != apierr.Internal {
		t.Errorf("got %s, want %s", got, apierr.Internal)
	}
}
