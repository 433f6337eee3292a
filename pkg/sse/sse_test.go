package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/agentbus/agentbus/pkg/sse"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		does           string
		id, name, data string
		want           string
	}{
		{"writes id, name and data", "a-1", "text", `{"a":1}`, "id: a-1\nevent: text\ndata: {\"a\":1}\n\n"},
		{"leaves out an empty id", "", "text", "x", "event: text\ndata: x\n\n"},
		{"leaves out an empty name", "a-1", "", "x", "id: a-1\ndata: x\n\n"},
		{"writes empty data", "", "", "", "data: \n\n"},
		{"splits data at LF", "", "", "a\nb", "data: a\ndata: b\n\n"},
		{"splits data at CR", "", "", "a\rb", "data: a\ndata: b\n\n"},
		{"splits data at CRLF", "", "", "a\r\nb", "data: a\ndata: b\n\n"},
		{"cannot be made to forge an event", "", "text", "\n\nevent: done\ndata: {}",
			"event: text\n" + strings.Repeat("data: \n", 2) + "data: event: done\ndata: " + "data: {}\n\n"},
	}
	for _, test := range tests {
		t.Run(test.does, func(t *testing.T) {
			t.Parallel()
			got, err := sse.Append([]byte("before|"), test.id, test.name, []byte(test.data))
			if err != nil || string(got) != "before|"+test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestAppendRefusesWhatWouldForgeALine(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"a\nb", "a\rb", "a\x00b", "1\nevent: done"} {
		if got, err := sse.Append([]byte("x"), bad, "text", nil); !errors.Is(err, sse.ErrField) || string(got) != "x" {
			t.Errorf("id %q: got %q, %v", bad, got, err)
		}
		if got, err := sse.Append([]byte("x"), []byte(bad), "text", nil); !errors.Is(err, sse.ErrField) || string(got) != "x" {
			t.Errorf("id %q as bytes: got %q, %v", bad, got, err)
		}
		if got, err := sse.Append([]byte("x"), "1", bad, nil); !errors.Is(err, sse.ErrField) || string(got) != "x" {
			t.Errorf("name %q: got %q, %v", bad, got, err)
		}
		if got, err := sse.AppendID([]byte("x"), bad); !errors.Is(err, sse.ErrField) || string(got) != "x" {
			t.Errorf("id %q alone: got %q, %v", bad, got, err)
		}
		if got, err := sse.AppendComment([]byte("x"), bad); !errors.Is(err, sse.ErrField) || string(got) != "x" {
			t.Errorf("comment %q: got %q, %v", bad, got, err)
		}
	}
}

func TestCommentIDAndRetry(t *testing.T) {
	t.Parallel()
	got, err := sse.AppendComment(nil, "heartbeat")
	if err != nil || string(got) != ": heartbeat\n\n" {
		t.Errorf("comment: got %q, %v", got, err)
	}
	if got, err := sse.AppendID(nil, "k3f9-1"); err != nil || string(got) != "id: k3f9-1\n\n" {
		t.Errorf("id: got %q, %v", got, err)
	}
	if got := sse.AppendRetry(nil, 3*time.Second); string(got) != "retry: 3000\n\n" {
		t.Errorf("retry: got %q", got)
	}
	if got := sse.AppendRetry(nil, -time.Second); string(got) != "retry: 0\n\n" {
		t.Errorf("negative retry: got %q", got)
	}
}

func TestParser(t *testing.T) {
	t.Parallel()
	event := func(id, name, data string) sse.Event { return sse.Event{ID: id, Name: name, Data: []byte(data)} }
	tests := []struct {
		does   string
		stream string
		want   []sse.Event
	}{
		{"reads an event", "id: 1\nevent: text\ndata: x\n\n", []sse.Event{event("1", "text", "x")}},
		{"takes a CR as the end of a line", "event: a\rdata: x\r\r", []sse.Event{event("", "a", "x")}},
		{"takes CRLF as the end of a line", "event: a\r\ndata: x\r\n\r\n", []sse.Event{event("", "a", "x")}},
		{"takes off one space only", "data:  x\n\n", []sse.Event{event("", "message", " x")}},
		{"needs no space", "data:x\n\n", []sse.Event{event("", "message", "x")}},
		{"joins data lines", "data: a\ndata: b\n\n", []sse.Event{event("", "message", "a\nb")}},
		{"knows a field without a colon", "data\n\n", []sse.Event{event("", "message", "")}},
		{"skips comments", ": heartbeat\n\ndata: x\n\n", []sse.Event{event("", "message", "x")}},
		{"skips unknown fields", "colour: red\ndata: x\n\n", []sse.Event{event("", "message", "x")}},
		{"drops an event without data, but keeps its id", "id: 1\nevent: a\n\ndata: x\n\n",
			[]sse.Event{event("1", "message", "x")}},
		{"keeps the id for later events", "id: 1\ndata: x\n\ndata: y\n\n",
			[]sse.Event{event("1", "message", "x"), event("1", "message", "y")}},
		{"forgets the id on an empty id", "id: 1\ndata: x\n\nid\ndata: y\n\n",
			[]sse.Event{event("1", "message", "x"), event("", "message", "y")}},
		{"ignores an id with NUL", "id: 1\ndata: x\n\nid: a\x00b\ndata: y\n\n",
			[]sse.Event{event("1", "message", "x"), event("1", "message", "y")}},
		{"skips a byte order mark at the start", "\ufeffdata: x\n\n", []sse.Event{event("", "message", "x")}},
		{"skips no byte order mark later", "data: x\n\n\ufeffdata: y\n\n", []sse.Event{event("", "message", "x")}},
		{"drops an event that was cut", "data: x\n\ndata: y\n", []sse.Event{event("", "message", "x")}},
	}
	for _, test := range tests {
		t.Run(test.does, func(t *testing.T) {
			t.Parallel()
			for size := 1; size <= len(test.stream); size++ {
				if got := feed(t, test.stream, size); !reflect.DeepEqual(got, test.want) {
					t.Fatalf("in chunks of %d: got %+v, want %+v", size, got, test.want)
				}
			}
			if got := readAll(t, iotest.OneByteReader(strings.NewReader(test.stream))); !reflect.DeepEqual(got, test.want) {
				t.Errorf("reader: got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestParserIdIsThatOfCompleteEvents(t *testing.T) {
	t.Parallel()
	var p sse.Parser
	if _, err := p.Feed([]byte("id: 1\ndata: x\n\nid: 2\ndata: y")); err != nil {
		t.Fatal(err)
	}
	if got := p.LastID(); got != "1" {
		t.Errorf("got last id %q, want that of the complete event, \"1\"", got)
	}
}

func TestParserRetry(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line string
		want time.Duration
	}{
		{"retry: 1500", 1500 * time.Millisecond},
		{"retry: 1e3", 0},
		{"retry: -5", 0},
		{"retry:", 0},
		{"retry: 99999999999999999999", 0},
		{"retry: 9223372036854775807", 0},
	}
	for _, test := range tests {
		var p sse.Parser
		if _, err := p.Feed([]byte(test.line + "\n")); err != nil || p.Retry() != test.want {
			t.Errorf("%q: got %v, %v, want %v", test.line, p.Retry(), err, test.want)
		}
	}
}

func TestParserIsBounded(t *testing.T) {
	t.Parallel()
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	for name, each := range map[string][]byte{"one line": chunk, "many lines": append([]byte("data: "), append(chunk, '\n')...)} {
		var p sse.Parser
		var err error
		for range 9 {
			if _, err = p.Feed(each); err != nil {
				break
			}
		}
		if !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("%s: got %v, want ErrTooLong", name, err)
		}
	}
}

func TestReaderReportsHowTheStreamEnded(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection cut")
	r := sse.NewReader(io.MultiReader(strings.NewReader("retry: 7\ndata: x\n\ndata: y"), iotest.ErrReader(cut)))
	if e, err := r.Next(); err != nil || string(e.Data) != "x" {
		t.Fatalf("got %+v, %v", e, err)
	}
	for range 2 {
		if _, err := r.Next(); !errors.Is(err, cut) {
			t.Fatalf("got %v, want %v", err, cut)
		}
	}
	if r.Retry() != 7*time.Millisecond {
		t.Errorf("got retry %v", r.Retry())
	}
}

func TestParseReturnsTheRemainder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		chunk     string
		events    int
		remainder string
	}{
		{"data: x\n\ndata: y", 1, "data: y"},
		{"data: x\n", 0, "data: x\n"},
		{"data: x\n\n", 1, ""},
		{"data: x\r\n\r\n", 1, ""},
		{"data: x\r\n\r", 0, "data: x\r\n\r"},
		{"data: x\r\rdata", 1, "data"},
		{"", 0, ""},
		{"\n\n", 0, ""},
	}
	for _, test := range tests {
		events, remainder, err := sse.Parse([]byte(test.chunk))
		if err != nil || len(events) != test.events || string(remainder) != test.remainder {
			t.Errorf("%q: got %d events and remainder %q (%v), want %d and %q",
				test.chunk, len(events), remainder, err, test.events, test.remainder)
		}
	}
}

// FuzzRoundTrip says: what Append writes, a Parser reads, wherever the network cuts it.
func FuzzRoundTrip(f *testing.F) {
	f.Add("a-1", "text", `{"event":"text"}`, uint8(3))
	f.Add("", "", "a\r\nb\rc\n", uint8(1))
	f.Add("x", "done", "\n\nevent: done\ndata: {}", uint8(7))
	f.Add("1\nevent: done", "\ufeff", "\x00", uint8(0))
	f.Fuzz(func(t *testing.T, id, name, data string, size uint8) {
		stream, err := sse.Append(nil, id, name, []byte(data))
		if strings.ContainsAny(id+name, "\r\n\x00") {
			if !errors.Is(err, sse.ErrField) {
				t.Fatalf("id %q, name %q: got %v, want ErrField", id, name, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if name == "" {
			name = "message"
		}
		want := sse.Event{ID: id, Name: name, Data: []byte(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data))}
		got := feed(t, string(stream)+string(stream), int(size)+1)
		if len(got) != 2 || !equal(got[0], want) || !equal(got[1], want) {
			t.Fatalf("got %+v, want %+v twice, from %q", got, want, stream)
		}
	})
}

// FuzzParser says: any bytes, however they are cut, give the same events and never a panic.
func FuzzParser(f *testing.F) {
	f.Add([]byte("id: 1\r\ndata: x\r\r\n\n"), uint8(2))
	f.Add([]byte("\ufeffretry: 5\n\n:\n"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		whole := feed(t, string(stream), len(stream)+1)
		if cut := feed(t, string(stream), int(size)+1); !reflect.DeepEqual(cut, whole) {
			t.Fatalf("in chunks of %d: got %+v, in one: %+v", int(size)+1, cut, whole)
		}
		_, remainder, err := sse.Parse(stream)
		if err != nil || !bytes.HasSuffix(stream, remainder) {
			t.Fatalf("remainder %q of %q, %v", remainder, stream, err)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	data := []byte(`{"event":"text","blockId":"b0","stage":"delta","delta":"` + strings.Repeat("x", 180) + `"}`)
	id := []byte("k3f9-123")
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst, _ = sse.Append(dst[:0], id, "text", data)
	}
}

func ExampleAppend() {
	frame, err := sse.Append(nil, "k3f9-7", "text", []byte(`{"event":"text"}`))
	fmt.Printf("%s%v", frame, err)
	// Output:
	// id: k3f9-7
	// event: text
	// data: {"event":"text"}
	//
	// <nil>
}

func equal(a, b sse.Event) bool {
	return a.ID == b.ID && a.Name == b.Name && bytes.Equal(a.Data, b.Data)
}

func feed(t *testing.T, stream string, size int) []sse.Event {
	t.Helper()
	var p sse.Parser
	var all []sse.Event
	for len(stream) > 0 {
		n := min(size, len(stream))
		events, err := p.Feed([]byte(stream[:n]))
		if err != nil {
			t.Fatalf("feed: %v", err)
		}
		all = append(all, events...)
		stream = stream[n:]
	}
	return all
}

func readAll(t *testing.T, src io.Reader) []sse.Event {
	t.Helper()
	r := sse.NewReader(src)
	var all []sse.Event
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		all = append(all, e)
	}
}
