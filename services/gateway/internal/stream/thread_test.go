package stream

import (
	"testing"
)

// FuzzThreadCursor says: what Place and Start write is read back, and nothing else is taken.
func FuzzThreadCursor(f *testing.F) {
	f.Add("k3f9-2.17")
	f.Add("k3f9-0.0")
	f.Add("k3f9-2.017")
	f.Add("k3f9-2.start")
	f.Add("a.b")
	f.Fuzz(func(t *testing.T, cursor string) {
		at, err := parseThreadCursor(cursor)
		if err != nil {
			return
		}
		got := startOf(at.incarnation, at.index)
		if !at.start {
			got = string(appendThreadCursor(nil, at.incarnation, at.index, at.n))
		}
		if got != cursor {
			t.Fatalf("%q was taken for %q", cursor, got)
		}
	})
}
