package stream

import (
	"testing"
)

// FuzzThreadCursor says: what Place writes is read back, and nothing else is taken.
func FuzzThreadCursor(f *testing.F) {
	f.Add("k3f9-2.17")
	f.Add("k3f9-0.0")
	f.Add("k3f9-2.017")
	f.Add("a.b")
	f.Fuzz(func(t *testing.T, cursor string) {
		incarnation, index, n, err := parseThreadCursor(cursor)
		if err != nil {
			return
		}
		thread := Thread{index: index}
		if got := string(thread.Place(nil, incarnation, n)); got != cursor {
			t.Fatalf("%q was taken for %q", cursor, got)
		}
	})
}
