package rediscache

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker()
		want := func(allowed bool, when string) {
			t.Helper()
			if got := b.TryAcquirePermit(); got != allowed {
				t.Errorf("%s: got allowed %v, want %v", when, got, allowed)
			}
		}
		for range tolerance {
			want(true, "before the breaker opens")
			b.RecordFailure()
		}
		want(false, "just after it opened")
		time.Sleep(pause)
		want(true, "one call after the pause")
		want(false, "a second call while the first one tries")
		b.RecordFailure()
		want(false, "after the first one failed")
		time.Sleep(pause)
		want(true, "one call after another pause")
		b.abandoned()
		want(true, "the next one, when the first was abandoned")
		b.RecordSuccess()
		want(true, "after a success")
		b.RecordFailure()
		b.RecordFailure()
		b.RecordSuccess()
		b.RecordFailure()
		b.RecordFailure()
		want(true, "while failures are not in a row")
		b.abandoned()
		want(true, "all of them after a success")
	})
}
