package responder

import (
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

func TestCursorsSurviveTheRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []place{
		{List: "events", ID: "req_1"},
		{List: "events", Index: 7, ID: "req_1", N: 1 << 60},
		{List: "threads", ID: "thr_1", UpdatedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)},
	} {
		got, err := readCursor(want.List, want.cursor())
		if err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		if _, err := readCursor("another", want.cursor()); apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Errorf("as the cursor of another list: got %v, want it refused", err)
		}
	}
}

func FuzzReadCursor(f *testing.F) {
	for _, seed := range []string{"", "garbage", "e30", place{List: "events", ID: "req_1", N: 3}.cursor(), "%%%", "eyJsIjoiZXZlbnRzIn0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		p, err := readCursor("events", cursor)
		if err != nil {
			if apierr.CodeOf(err) != apierr.InvalidMessageFormat {
				t.Errorf("got %v, want invalid_message_format", err)
			}
			return
		}
		if cursor == "" {
			return
		}
		if again, err := readCursor("events", p.cursor()); err != nil || !again.UpdatedAt.Equal(p.UpdatedAt) || again.N != p.N || again.ID != p.ID {
			t.Errorf("got %+v, %v, want %+v again", again, err, p)
		}
	})
}
