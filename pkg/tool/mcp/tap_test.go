package mcp

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

// tapOf returns a tap, and the receiver of the call whose token is "c-1".
func tapOf() (*tap, *receiver, *string) {
	var calls progress
	said := new(string)
	r := &receiver{progress: func(line string) { *said += line }, show: func(event.Custom) {}}
	calls.follow("c", r)
	return &tap{calls: &calls, events: true}, r, said
}

func TestWhatIsAnEventOfAServer(t *testing.T) {
	t.Parallel()
	note := func(params string) string {
		return `{"jsonrpc":"2.0","method":"notifications/progress","params":{` + params + "}}\n"
	}
	long := `"progressToken":"c-1","_meta":{"agentbus/event":{"type":"a","data":{"x":"` + strings.Repeat("x", maxNotification) + `"}}}`
	tests := []struct{ name, sent, events, said string }{
		{"in _meta", note(`"progressToken":"c-1","_meta":{"agentbus/event":{"type":"a","data":{"n":1}}}`), `a {"n":1}`, ""},
		{"in an SSE stream", "event: message\r\ndata: " + note(`"progressToken":"c-1","_meta":{"agentbus/event":{"type":"a"}}`) + "\r\n", "a {}", ""},
		{"as a line of the message", note(`"progressToken":"c-1","message":"::event {\"type\":\"a\"}"`), "a {}", ""},
		{"an environment_input", note(`"progressToken":"c-1","_meta":{"agentbus/event":{"type":"environment_input","data":{"content":"x"}}}`), `environment_input {"content":"x"}`, ""},
		{"not what cannot be one", note(`"progressToken":"c-1","_meta":{"agentbus/event":7}`), "", "[not an event: "},
		{"not of another call", note(`"progressToken":"c-2","_meta":{"agentbus/event":{"type":"a"}}`), "", ""},
		{"not of a token that is an object", note(`"progressToken":{},"_meta":{"agentbus/event":{"type":"a"}}`), "", ""},
		{"not within a result", `{"result":{"text":"notifications/progress","_meta":{"agentbus/event":{"type":"a"}}}}` + "\n", "", ""},
		{"not in a line that is too long", note(long), "", ""},
		{"the one after that", note(long) + note(`"progressToken":"c-1","_meta":{"agentbus/event":{"type":"a"}}`), "a {}", ""},
	}
	for _, test := range tests {
		for _, size := range []int{1, 1000, len(test.sent)} {
			tap, r, said := tapOf()
			for rest := test.sent; rest != ""; rest = rest[min(size, len(rest)):] {
				_, _ = tap.Write([]byte(rest[:min(size, len(rest))]))
			}
			var events []string
			for _, e := range r.emitted() {
				events = append(events, e.Type+" "+string(e.Data))
			}
			if got := strings.Join(events, "|"); got != test.events || !strings.HasPrefix(*said, test.said) || test.said == "" && *said != "" {
				t.Errorf("%s, in pieces of %d: got %q and %.100q, want %q and %q", test.name, size, got, *said, test.events, test.said)
			}
		}
	}
}

func TestProgressIsALineForTheRunningCall(t *testing.T) {
	t.Parallel()
	note := func(params string) string {
		return `{"jsonrpc":"2.0","method":"notifications/progress","params":{` + params + "}}\n"
	}
	tap, _, said := tapOf()
	for _, foreign := range []string{`null`, `7`, `"c-2"`, `{"a":1}`, `["x"]`} {
		_, _ = tap.Write([]byte(note(`"message":"no","progressToken":` + foreign)))
	}
	_, _ = tap.Write([]byte(note(`"progressToken":"c-1","progress":1,"message":"yes"`)))
	_, _ = tap.Write([]byte(note(`"progressToken":"c-1","progress":2,"total":3`)))
	_, _ = tap.Write([]byte(note(`"progressToken":"c-1","progress":2.5`)))
	tap.calls.calls.Delete("c-1")
	_, _ = tap.Write([]byte(note(`"progressToken":"c-1","message":"too late"`)))
	if *said != "yes\n2 of 3\n2.5\n" {
		t.Errorf("got %q", *said)
	}
}

// FuzzTap checks that a server can send anything, in any pieces.
func FuzzTap(f *testing.F) {
	f.Add(`{"method":"notifications/progress","params":{"progressToken":"c-1","_meta":{"agentbus/event":{"type":"a"}}}}`+"\n", 3)
	f.Add("data: {\"method\":\"notifications/progress\",\"params\":{\"progressToken\":\"c-1\",\"message\":\"::event {}\"}}\r\n\r\n", 1)
	f.Fuzz(func(t *testing.T, sent string, size int) {
		whole, a, _ := tapOf()
		_, _ = whole.Write([]byte(sent))
		pieces, b, _ := tapOf()
		for rest := sent; rest != ""; {
			n := min(max(size, 1), len(rest))
			_, _ = pieces.Write([]byte(rest[:n]))
			rest = rest[n:]
		}
		if len(a.emitted()) != len(b.emitted()) || cap(whole.line) > 2*maxNotification {
			t.Errorf("got %d events whole, %d in pieces, and %d bytes kept", len(a.emitted()), len(b.emitted()), cap(whole.line))
		}
	})
}
