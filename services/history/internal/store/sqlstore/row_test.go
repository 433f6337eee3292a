package sqlstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"pgregory.net/rapid"
)

// drawn is a frame in letters: s an event that is not a delta, d a delta, x one that cannot be read, t the terminal event.
// Each event is a second after the one before.
func drawn(letters string) event.Frame {
	f := event.Frame{Incarnation: "i1", First: 100, Time: at().Add(-time.Hour)}
	for i, letter := range letters {
		name, stage := event.NameText, event.StageStart
		switch letter {
		case 'd':
			stage = event.StageDelta
		case 't':
			name = event.NameDone
		case 'x':
			f.Names, f.Lines = append(f.Names, name), append(f.Lines, "x\n"...)
			continue
		}
		f.Names = append(f.Names, name)
		f.Lines = fmt.Appendf(f.Lines, `{"event":%q,"timestamp":%q,"stage":%q,"n":%d}`+"\n",
			name, at().Add(time.Duration(i)*time.Second).Format(time.RFC3339Nano), stage, i)
	}
	return f
}

// letters draws a row.
func letters(t rapid.TB, r row) string {
	t.Helper()
	var all strings.Builder
	for line := range r.part.Each() {
		switch g := readHeadAt(line); {
		case g.at.IsZero():
			all.WriteByte('x')
		case g.delta:
			all.WriteByte('d')
		case line.Name.IsTerminal():
			all.WriteByte('t')
		default:
			all.WriteByte('s')
		}
	}
	if beyond := strings.Trim(all.String(), "d") != ""; r.beyond != beyond {
		t.Errorf("row %s: beyond is %v", &all, r.beyond)
	}
	return all.String()
}

func TestLongRunsOfDeltasAreRowsOfTheirOwn(t *testing.T) {
	t.Parallel()
	long, short := strings.Repeat("d", longRun), strings.Repeat("d", longRun-1)
	tests := []struct {
		name string
		rows []string
	}{
		{"an event is a row", []string{"s"}},
		{"deltas are a row", []string{long}},
		{"a few deltas stay with the rest", []string{"ss" + short + "s" + short + "st"}},
		{"many deltas are in a row of their own", []string{"ss", long}},
		{"and from what follows", []string{long + long, "st"}},
		{"an answer in one frame is three rows", []string{"ssss", long + "ddd", "sst"}},
		{"runs on both sides leave what is between them", []string{long, "s" + short + "s", long, "x"}},
	}
	for _, tt := range tests {
		var got []string
		for _, r := range split(Key{}, drawn(strings.Join(tt.rows, ""))) {
			got = append(got, letters(t, r))
		}
		if strings.Join(got, " ") != strings.Join(tt.rows, " ") {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.rows)
		}
	}
}

func TestRowsKnowTheTimesOfTheirEvents(t *testing.T) {
	t.Parallel()
	second := func(i int) int64 { return micros(at().Add(time.Duration(i) * time.Second)) }
	backwards := drawn("sss")
	lines := strings.SplitAfter(string(backwards.Lines), "\n")
	backwards.Lines = []byte(lines[1] + lines[2] + lines[0])
	tests := []struct {
		name                   string
		frame                  event.Frame
		earliest, latest, last int64
	}{
		{"in order", drawn("sdt"), second(0), second(2), second(2)},
		{"a clock that was set back", backwards, second(0), second(2), second(0)},
		{"an event that cannot be read", drawn("sxs"), second(-3600), second(2), second(2)},
		{"nothing else", drawn("x"), second(-3600), second(-3600), second(-3600)},
	}
	for _, tt := range tests {
		rows := split(Key{}, tt.frame)
		if r := rows[0]; len(rows) != 1 || r.earliest != tt.earliest || r.latest != tt.latest || r.last != tt.last {
			t.Errorf("%s: got %+v", tt.name, rows)
		}
	}
}

func TestRowsTogetherAreTheFrame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := drawn(rapid.StringMatching(`([sx]{0,3}d{0,40}){0,4}t?`).Draw(t, "frame"))
		next, lines := f.First, ""
		for _, r := range split(Key{}, f) {
			letters(t, r)
			if r.part.First != next || len(r.part.Names) == 0 || r.part.Incarnation != f.Incarnation || !r.part.Time.Equal(f.Time) {
				t.Fatalf("after event %d comes the row %+v", next, r.part)
			}
			next, lines = r.part.Next(), lines+string(r.part.Lines)
		}
		if next != f.Next() || lines != string(f.Lines) {
			t.Fatalf("the rows end at %d, the frame at %d; lines %q", next, f.Next(), lines)
		}
	})
}

func TestAFrameWithFewerLinesThanNamesIsItsLines(t *testing.T) {
	t.Parallel()
	f := drawn("sst")
	f.Names = append(f.Names, event.NameText)
	rows := split(Key{}, f)
	if len(rows) != 1 || rows[0].part.Next() != 103 || !rows[0].part.Terminal() {
		t.Errorf("got %+v", rows)
	}
	if rows := split(Key{}, event.Frame{}); len(rows) > 0 {
		t.Errorf("got %+v of nothing", rows)
	}
}

func TestRowsOfOneKindThatFollowOneAnotherAreJoined(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		frames []string // of one request, one after another; "/" begins another incarnation, "-" leaves a hole
		rows   []string
	}{
		{"deltas", []string{"d", "dd", "d"}, []string{"dddd"}},
		{"what is more than deltas", []string{"s", "sds", "t"}, []string{"ssdst"}},
		{"deltas are in other rows than the rest", []string{"ss", "d", "d", "st"}, []string{"ss", "dd", "st"}},
		{"another incarnation", []string{"d", "/", "d"}, []string{"d", "d"}},
		{"a hole", []string{"d", "-", "d"}, []string{"d", "d"}},
		{"a row that is large enough", []string{strings.Repeat("d", 150), "d", strings.Repeat("d", 100)}, []string{strings.Repeat("d", 151), strings.Repeat("d", 100)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var rows []row
			next, incarnation := uint64(1), "i1"
			for i, frame := range tt.frames {
				switch frame {
				case "/":
					incarnation = "i2"
				case "-":
					next++
				default:
					f := drawn(frame)
					f.First, f.Incarnation = next, incarnation
					rows = append(rows, split(Key{"t", "a"}, f)...)
					other := drawn("d") // of another request, which comes in between
					other.First = uint64(i)
					rows = append(rows, split(Key{"t", fmt.Sprint("other ", i)}, other)...)
					next = f.Next()
				}
			}
			var got []string
			for _, r := range join(rows) {
				if r.key.ID == "a" {
					got = append(got, letters(t, r))
				}
			}
			if strings.Join(got, " ") != strings.Join(tt.rows, " ") {
				t.Errorf("got %q, want %q", got, tt.rows)
			}
		})
	}
}
