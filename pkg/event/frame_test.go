package event_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"pgregory.net/rapid"
)

// frame makes a frame of size events from n first on; the last is terminal.
func frame(first uint64, size int) event.Frame {
	f := event.Frame{Incarnation: "k3v9", Epoch: 1, First: first}
	for i := range size {
		name := event.NameText
		if i == size-1 {
			name = event.NameDone
		}
		f.Names = append(f.Names, name)
		f.Lines = fmt.Appendf(f.Lines, `{"event":"%s","id":"k3v9-%d","requestId":"r"}`+"\n", name, first+uint64(i))
	}
	return f
}

// numbers lists the n of the frame's lines, and checks that each line is the event with that n.
func numbers(t rapid.TB, f event.Frame) []uint64 {
	var all []uint64
	for line := range f.Each() {
		all = append(all, line.N)
		e, err := event.Decode(line.JSON)
		if err != nil || e.ID != event.NewCursor("k3v9", line.N) || e.Body.Name() != line.Name {
			t.Errorf("line %d is %s (%v)", line.N, line.JSON, err)
		}
	}
	return all
}

func TestFrameFrom(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		from uint64
		want []uint64
	}{
		{"before the frame is the whole frame", 3, []uint64{10, 11, 12}},
		{"its first event is the whole frame", 10, []uint64{10, 11, 12}},
		{"the middle drops what comes before", 11, []uint64{11, 12}},
		{"the last event is left alone", 12, []uint64{12}},
		{"what follows leaves nothing", 13, nil},
		{"far behind leaves nothing", 1 << 60, nil},
	}
	for _, tt := range tests {
		part := frame(10, 3).From(tt.from)
		if got := numbers(t, part); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		if part.Next() != 13 {
			t.Errorf("%s: the next event is %d, want 13", tt.name, part.Next())
		}
		if part.Terminal() != (len(tt.want) > 0) {
			t.Errorf("%s: terminal is %v", tt.name, part.Terminal())
		}
		if len(tt.want) == 0 && len(part.Lines) > 0 {
			t.Errorf("%s: the lines %q are left", tt.name, part.Lines)
		}
	}
}

func TestFrameBefore(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		before uint64
		want   []uint64
	}{
		{"before the frame is nothing", 3, nil},
		{"its first event is nothing", 10, nil},
		{"the middle drops what follows", 11, []uint64{10}},
		{"the last event is dropped alone", 12, []uint64{10, 11}},
		{"what follows is the whole frame", 13, []uint64{10, 11, 12}},
		{"far behind is the whole frame", 1 << 60, []uint64{10, 11, 12}},
	}
	for _, tt := range tests {
		part := frame(10, 3).Before(tt.before)
		if got := numbers(t, part); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
		if part.First != 10 || part.Next() != 10+uint64(len(tt.want)) {
			t.Errorf("%s: goes from %d to %d", tt.name, part.First, part.Next())
		}
		if part.Terminal() != (len(tt.want) == 3) {
			t.Errorf("%s: terminal is %v", tt.name, part.Terminal())
		}
		if len(tt.want) == 0 && len(part.Lines) > 0 {
			t.Errorf("%s: the lines %q are left", tt.name, part.Lines)
		}
	}
}

func TestFrameFromLeavesTheSharedFrameAlone(t *testing.T) {
	t.Parallel()
	f := frame(0, 3)
	before := bytes.Clone(f.Lines)
	f.From(2)
	if f.First != 0 || len(f.Names) != 3 || !bytes.Equal(f.Lines, before) {
		t.Errorf("the frame is now %+v", f)
	}
}

func TestFrameCutAnywhereIsTheFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint64Range(0, 1<<40).Draw(t, "first")
		size := rapid.IntRange(0, 20).Draw(t, "size")
		cut := rapid.Uint64Range(0, first+uint64(size)+5).Draw(t, "cut")
		f := frame(first, size)
		var want []uint64
		for _, n := range numbers(t, f) {
			if n >= cut {
				want = append(want, n)
			}
		}
		if got := numbers(t, f.From(cut)); !slices.Equal(got, want) {
			t.Fatalf("From(%d) of %d events from %d on gives %v, want %v", cut, size, first, got, want)
		}
		if head, tail := f.Before(cut), f.From(cut); string(head.Lines)+string(tail.Lines) != string(f.Lines) ||
			len(head.Names)+len(tail.Names) != size {
			t.Fatalf("cut at %d, %d events from %d on are %d and %d", cut, size, first, len(head.Names), len(tail.Names))
		}
	})
}

func TestFrameUptoGivesPartsThatAreTheFrame(t *testing.T) {
	t.Parallel()
	whole := frame(10, 20)
	for size := range len(whole.Lines) + 2 {
		var lines []byte
		n := uint64(10)
		for rest := whole; len(rest.Names) > 0; rest = rest.From(n) {
			part := rest.Upto(size)
			if len(part.Lines) > size && len(part.Names) > 1 || len(part.Names) == 0 || part.First != n {
				t.Fatalf("a part of at most %d bytes has %d, from event %d on", size, len(part.Lines), part.First)
			}
			lines, n = append(lines, part.Lines...), part.Next()
		}
		if !bytes.Equal(lines, whole.Lines) || n != whole.Next() {
			t.Errorf("parts of %d bytes make another frame", size)
		}
	}
}

func TestFrameEachStopsWhenAsked(t *testing.T) {
	t.Parallel()
	seen := 0
	for range frame(0, 5).Each() {
		if seen++; seen == 2 {
			break
		}
	}
	if seen != 2 {
		t.Errorf("saw %d events, want 2", seen)
	}
}

func TestFrameEvents(t *testing.T) {
	t.Parallel()
	events, err := frame(7, 2).Events()
	if err != nil || len(events) != 2 || events[1].ID != "k3v9-8" {
		t.Errorf("got %+v, %v", events, err)
	}
	broken := frame(7, 2)
	broken.Lines = []byte("{\"event\":\"text\"}\nnonsense\n")
	if _, err := broken.Events(); err == nil {
		t.Error("a broken line is not an error")
	}
}

func TestFrameWithoutEventsIsNotTerminal(t *testing.T) {
	t.Parallel()
	if (event.Frame{}).Terminal() {
		t.Error("nothing ends a request")
	}
}
