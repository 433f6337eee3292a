package broker

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClockFollowsTheBroker measures a remote clock that is ten minutes off, also through a step of it, and with answers
// that were long on their way.
func TestClockFollowsTheBroker(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var c Clock
			if got := c.now(); !got.Equal(time.Now()) {
				t.Errorf("before any measurement it is %s, want this process' own time", got)
			}
			ask := func(ahead, there, back time.Duration) {
				asked := time.Now()
				time.Sleep(there)
				said := time.Now().Add(ahead)
				time.Sleep(back)
				c.measure(asked, time.Now(), said.Round(0))
			}
			want := func(ahead, inexact time.Duration) {
				t.Helper()
				if off := c.now().Sub(time.Now().Add(ahead)).Abs(); off > inexact {
					t.Errorf("it is off by %s, want at most %s", off, inexact)
				}
			}
			ask(ahead, time.Millisecond, 3*time.Millisecond)
			want(ahead, 2*time.Millisecond)
			before := c.now()
			ask(ahead, 2*time.Second, 0) // agrees within what it may be wrong
			want(ahead, 2*time.Millisecond)
			if took := c.now().Sub(before); took != 2*time.Second {
				t.Errorf("two seconds later it is %s later", took)
			}
			time.Sleep(time.Hour)
			want(ahead, 2*time.Millisecond)
			ask(ahead+time.Minute, time.Millisecond, time.Millisecond) // the broker's clock was set
			want(ahead+time.Minute, 2*time.Millisecond)
		})
	}
}
