package event_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"nothing":                        ``,
		"null":                           `null`,
		"a list":                         `[]`,
		"a text":                         `"text"`,
		"no name":                        `{"requestId":"r"}`,
		"an empty name":                  `{"event":""}`,
		"a name in another case":         `{"Event":"text"}`,
		"a name that is a number":        `{"event":1}`,
		"a member twice":                 `{"event":"done","event":"text"}`,
		"an unknown member twice":        `{"event":"text","x":1,"x":2}`,
		"a member of a body twice":       `{"event":"text","delta":"a","delta":"b"}`,
		"two objects":                    `{"event":"aborted"}{"event":"aborted"}`,
		"half an object":                 `{"event":"aborted"`,
		"an invalid time":                `{"event":"aborted","timestamp":"yesterday"}`,
		"a time that is a number":        `{"event":"aborted","timestamp":1700000000}`,
		"a member of another type":       `{"event":"text","delta":7}`,
		"an index that is a fraction":    `{"event":"text","blockIndex":0.5}`,
		"invalid UTF-8":                  "{\"event\":\"text\",\"delta\":\"\xff\"}",
		"a lone surrogate":               `{"event":"text","delta":"\ud800"}`,
		"a mark of byte order":           "\ufeff" + `{"event":"aborted"}`,
		"a number too large for its use": `{"event":"claim","epoch":18446744073709551616}`,
	}
	for name, line := range tests {
		if e, err := event.Decode([]byte(line)); err == nil {
			t.Errorf("%s: %s decodes to %+v", name, line, e)
		}
	}
}

func TestUnknownEventsAndMembersSurvive(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"an unknown event": `{"event":"hologram","id":"k-7","requestId":"r","timestamp":"2026-03-14T09:26:53.589793Z","depth":3,"layers":[{"a":null}]}`,
		"an unknown event without members of its own": `{"event":"hologram","requestId":"r","timestamp":"2026-03-14T09:26:53.589793Z"}`,
		"an unknown member of a known event":          `{"event":"text","requestId":"r","timestamp":"2026-03-14T09:26:53.589793Z","blockId":"b","stage":"delta","deltaIndex":1,"delta":"x","mood":{"happy":true}}`,
		"a member that differs in case alone":         `{"event":"text","requestId":"r","timestamp":"2026-03-14T09:26:53.589793Z","blockId":"b","stage":"stop","text":"x","Text":"y"}`,
		"an unknown member of a content block":        `{"event":"done","requestId":"r","timestamp":"2026-03-14T09:26:53.589793Z","messageId":"m","threadId":"t","content":[{"type":"citation","url":"https://example.com"}],"usage":{"inputTokens":1,"outputTokens":2},"finishReason":"stop"}`,
		"an enum's value of a later version":          `{"event":"done","requestId":"r","timestamp":"2026-03-14T09:26:53.589793Z","messageId":"m","threadId":"t","content":[],"usage":{"inputTokens":1,"outputTokens":2},"finishReason":"bored"}`,
		"a number of many digits":                     `{"event":"custom","requestId":"r","timestamp":"2026-03-14T09:26:53.589793Z","type":"x","data":12345678901234567890123}`,
	}
	for name, line := range tests {
		e, err := event.Decode([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := event.Encode(e)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if string(again) != line {
			t.Errorf("%s: got  %s\nwant %s", name, again, line)
		}
	}
}

func TestUnknownEventsAreReported(t *testing.T) {
	t.Parallel()
	e, err := event.Decode([]byte(`{"event":"hologram","requestId":"r","depth":3}`))
	if err != nil {
		t.Fatal(err)
	}
	unknown, ok := e.Body.(event.Unknown)
	if !ok || unknown.Name() != "hologram" || string(unknown.Rest.JSON()) != `{"depth":3}` {
		t.Errorf("got %#v", e.Body)
	}
}

func TestDecodedEventsDoNotShareTheLine(t *testing.T) {
	t.Parallel()
	line := []byte(`{"event":"hologram","requestId":"r","timestamp":"2026-03-14T09:26:53.589793Z","depth":3}`)
	e, err := event.Decode(line)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(line)
	clear(line)
	if got, err := event.Encode(e); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	names := event.Names()
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("got %v, want sorted names, each once", names)
	}
	if native := event.Native(); len(native) != 9 || native[0] != event.NameMetadata {
		t.Errorf("the native events are %v", native)
	}
	var terminal, internal []event.Name
	for _, name := range names {
		if name.IsTerminal() {
			terminal = append(terminal, name)
		}
		if name.IsInternal() {
			internal = append(internal, name)
		}
		if name.IsInternal() && name.IsNative() {
			t.Errorf("%s is native and internal", name)
		}
	}
	if want := []event.Name{"aborted", "done", "error"}; !slices.Equal(terminal, want) {
		t.Errorf("terminal are %v, want %v", terminal, want)
	}
	if want := []event.Name{"agent_session", "summary", "tool_output"}; !slices.Equal(internal, want) {
		t.Errorf("internal are %v, want %v", internal, want)
	}
	if event.Name("hologram").IsNative() || event.IsTerminal(event.Unknown{Event: "hologram"}) {
		t.Error("an unknown event is neither native nor terminal")
	}
}

func TestUsageAdds(t *testing.T) {
	t.Parallel()
	a := event.Usage{InputTokens: 1, OutputTokens: 2, CachedInputTokens: 3, ReasoningTokens: 4, CostUSD: 0.5}
	want := event.Usage{InputTokens: 2, OutputTokens: 4, CachedInputTokens: 6, ReasoningTokens: 8, CostUSD: 1}
	if got := a.Add(a); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"event":"text","id":"k-1","requestId":"r","timestamp":"2026-03-14T09:26:53.589793Z","blockId":"b","stage":"delta","deltaIndex":0,"delta":"x"}`))
	f.Add([]byte(`{"event":"done","requestId":"r","content":[{"type":"tool_use","args":{"a":1}}],"usage":{"inputTokens":1,"outputTokens":2}}`))
	f.Add([]byte(`{"event":"input","messages":[{"role":"user","content":"hi"},{"role":"user","content":[{"type":"file","data":"aGk="}]}]}`))
	f.Add([]byte(`{"event":"hologram","depth":3,"\u2028":"\u2029"}`))
	f.Add([]byte(`{"event":"custom","type":"x","data":{"n":1e400}}`))
	f.Add([]byte(strings.Repeat(`[`, 100)))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := event.Decode(line)
		if err != nil {
			return
		}
		once, err := event.Encode(e)
		if err != nil {
			t.Fatalf("%q decodes and does not encode: %v", line, err)
		}
		if bytes.ContainsAny(once, "\n\r\u2028\u2029") {
			t.Fatalf("a break is left in %q", once)
		}
		again, err := event.Decode(once)
		if err != nil {
			t.Fatalf("%q does not decode: %v", once, err)
		}
		twice, err := event.Encode(again)
		if err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("got %q, %v, want %q", twice, err, once)
		}
	})
}
