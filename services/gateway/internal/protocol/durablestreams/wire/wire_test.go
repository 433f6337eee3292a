package wire_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/durablestreams/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/protocoltest"
)

var update = protocoltest.Update()

func TestCodec(t *testing.T) {
	t.Parallel()
	d := wire.Codec{Cursor: func() string { return "1000" }}
	protocoltest.Run(t, d, update,
		protocoltest.Format{Name: "messages"},
		protocoltest.Format{Name: "all messages", Options: codec.Options{Include: []string{"extended"}}},
		protocoltest.Format{Name: "server-sent events", Options: codec.Options{Accept: sse.ContentType}},
	)
}

func TestArrayHasTheMessages(t *testing.T) {
	t.Parallel()
	enc, err := wire.Codec{}.Encoder(codec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	if got := string(wire.Array(nil)); got != "[]" {
		t.Errorf("no messages: got %s, want []", got)
	}
	count := 0
	for _, f := range protocoltest.Log(t) {
		if body, err = enc.Append(body, f); err != nil {
			t.Fatal(err)
		}
		for line := range f.Each() {
			if line.Name.IsNative() && !line.HasToolOutput() {
				count++
			}
		}
	}
	var got []map[string]any
	if err := json.Unmarshal(wire.Array(body), &got); err != nil || len(got) != count {
		t.Errorf("got %d messages (%v), want %d", len(got), err, count)
	}
}

// frame is a frame of the log with two texts, and an event that clients do not get or the terminal one.
func frame(last event.Name) event.Frame {
	lines := `{"event":"text"}` + "\n" + `{"event":"text"}` + "\n" + `{"event":"` + string(last) + `"}` + "\n"
	return event.Frame{Incarnation: "k3f9", First: 5, Names: []event.Name{event.NameText, event.NameText, last}, Lines: []byte(lines)}
}

func TestControlEvents(t *testing.T) {
	t.Parallel()
	always := func(uint64) bool { return true }
	const two = `"streamNextOffset":"k3f9_0000000000000006","streamCursor":"1" "streamNextOffset":"k3f9_0000000000000007","streamCursor":"1" `
	tests := []struct {
		does  string
		codec wire.Codec
		last  event.Name
		want  string
	}{
		{"a client that is behind", wire.Codec{}, event.NameToolCall, two + `"streamNextOffset":"k3f9_0000000000000008","streamCursor":"1"`},
		{
			"a client that has all events", wire.Codec{UpToDate: always}, event.NameToolCall,
			two + `"streamNextOffset":"k3f9_0000000000000008","streamCursor":"1","upToDate":true`,
		},
		{
			"the last event is internal", wire.Codec{UpToDate: always}, event.NameClaim,
			two + `"streamNextOffset":"k3f9_0000000000000008","streamCursor":"1","upToDate":true`,
		},
		{"the last event is internal, and more follow", wire.Codec{}, event.NameClaim, strings.TrimSpace(two)},
		{
			"the terminal event closes the stream of a request", wire.Codec{}, event.NameDone,
			two + `"streamNextOffset":"k3f9_0000000000000008","upToDate":true,"streamClosed":true`,
		},
		{
			"the stream of a thread continues", wire.Codec{Thread: true, UpToDate: always}, event.NameDone,
			two + `"streamNextOffset":"k3f9_0000000000000008","streamCursor":"1","upToDate":true`,
		},
	}
	for _, test := range tests {
		test.codec.Cursor = func() string { return "1" }
		enc, err := test.codec.Encoder(codec.Options{Accept: sse.ContentType, From: 5})
		if err != nil {
			t.Fatal(err)
		}
		out, err := enc.Append(nil, frame(test.last))
		events, rest, parsed := sse.Parse(out)
		if err != nil || parsed != nil || len(rest) > 0 {
			t.Fatalf("%s: %v, %v, remainder %q", test.does, err, parsed, rest)
		}
		var got []string
		for i, e := range events {
			if e.Name == "control" {
				got = append(got, strings.Trim(string(e.Data), "{}"))
			} else if i+1 == len(events) || events[i+1].Name != "control" {
				t.Errorf("%s: no control event follows the data %s", test.does, e.Data)
			}
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.does, text, test.want)
		}
	}
}

func TestOffsets(t *testing.T) {
	t.Parallel()
	ordered := []wire.Offset{
		{Incarnation: "k3f9", Thread: true}, {Incarnation: "k3f9", Thread: true, N: 9}, {Incarnation: "k3f9", Thread: true, N: 10},
		{Incarnation: "k3f9", Thread: true, Index: 2}, {Incarnation: "k3f9", Thread: true, Index: 10, N: 3},
	}
	var texts []string
	for i, o := range ordered {
		texts = append(texts, o.String())
		if got, err := wire.ParseOffset(o.String(), true); err != nil || got != o {
			t.Errorf("%s: got %+v, %v", o, got, err)
		}
		if i > 0 && (!ordered[i-1].Before(o) || o.Before(ordered[i-1])) {
			t.Errorf("%s does not precede %s", ordered[i-1], o)
		}
	}
	if !slices.IsSorted(texts) {
		t.Errorf("the texts are not in the order of the positions: %v", texts)
	}
	request := wire.Offset{Incarnation: "k3f9", N: 17}
	if got, err := wire.ParseOffset("k3f9_0000000000000017", false); err != nil || got != request || request.String() != "k3f9_0000000000000017" {
		t.Errorf("got %+v %v, want %s", got, err, request)
	}
	for _, text := range []string{
		"", "0", "k3f9-17", "k3f9_17", "k3f9_0000000000000017_", "K3F9_0000000000000017", "k3f9_000000000000001 ", "k3f9_+000000000000017",
		"_0000000000000017", "k3f9_99999999999999999999", "k3f9,0000000000000017", "k3f9_0000000001_0000000000000017",
	} {
		if _, err := wire.ParseOffset(text, false); apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Errorf("%q: got %v, want invalid_message_format", text, err)
		}
	}
	for _, text := range []string{"k3f9_0000000000000017", "k3f9_9999999999_0000000000000017"} {
		if _, err := wire.ParseOffset(text, true); apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Errorf("%q of a thread: got %v, want invalid_message_format", text, err)
		}
	}
}

func FuzzParseOffset(f *testing.F) {
	f.Add("k3f9_0000000000000017", false)
	f.Add("k3f9_0000000002_0000000000000017", true)
	f.Fuzz(func(t *testing.T, text string, thread bool) {
		o, err := wire.ParseOffset(text, thread)
		if err == nil && o.String() != text {
			t.Errorf("%q: read as %q", text, o)
		}
	})
}

func TestStreamCursor(t *testing.T) {
	t.Parallel()
	at := time.Unix(1728432000, 0).Add(1000*20*time.Second + time.Second)
	for _, test := range []struct {
		sent     string
		from, to string // the range of the cursor; both have the same length
	}{
		{"", "1000", "1000"},
		{"999", "1000", "1000"},
		{"1000", "1001", "1180"},
		{"5000", "5001", "5180"},
		{"not a number", "1000", "1000"},
		{"-5", "1000", "1000"},
		{"9223372036854775807", "1000", "1000"},
	} {
		if got := wire.StreamCursor(at, test.sent); len(got) != 4 || got < test.from || got > test.to {
			t.Errorf("after %q: got %s, want %s to %s", test.sent, got, test.from, test.to)
		}
	}
	if got := wire.StreamCursor(time.Unix(0, 0), ""); got != "0" {
		t.Errorf("before the epoch: got %s, want 0", got)
	}
}
