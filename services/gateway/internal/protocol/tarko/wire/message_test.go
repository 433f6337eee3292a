package wire_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/wire"
)

// spoken is a log of a session, in a framing.
func spoken(t *testing.T, d wire.Codec, bodies ...event.Body) []string {
	t.Helper()
	frame := event.Frame{Incarnation: "k3f9"}
	for n, body := range bodies {
		line, err := event.Encode(event.Event{ID: event.NewCursor("k3f9", uint64(n)), RequestID: "r", Body: body})
		if err != nil {
			t.Fatal(err)
		}
		frame.Names = append(frame.Names, body.Name())
		frame.Lines = append(append(frame.Lines, line...), '\n')
	}
	enc, err := d.Encoder(codec.Options{ThreadID: "ours", Accept: "application/x-ndjson"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := enc.Append(nil, frame)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// TestMessagesSayWhereTheyBelong compares each message with the event that it carries.
func TestMessagesSayWhereTheyBelong(t *testing.T) {
	t.Parallel()
	log := []event.Body{
		event.Input{ThreadID: "ours", AgentID: "demo", Messages: []event.InputMessage{event.UserText("hi")}},
		event.Metadata{ThreadID: "ours", AgentID: "demo", ProtocolVersion: event.Protocol},
		event.Notice{Level: "info", Message: "a"},
		event.Continuation{ActionID: "act_1", Kind: event.ContinueInput},
		event.Done{MessageID: "m", ThreadID: "ours", Content: []event.Content{}, FinishReason: event.FinishActionRequired},
	}
	for _, vocabulary := range []words.Vocabulary{words.Flat, words.Nested} {
		events := spoken(t, wire.Codec{Vocabulary: vocabulary}, log...)
		messages := spoken(t, wire.Codec{Vocabulary: vocabulary, Framing: wire.Messages}, log...)
		if len(events) != len(messages) {
			t.Fatalf("%d messages, want %d", len(messages), len(events))
		}
		var cursors []string
		for i, text := range messages {
			want, got := objectOf(t, events[i]), objectOf(t, text)
			if got["sessionId"] != `"ours"` {
				t.Errorf("a message of no session: %s", text)
			}
			if cursor, ok := got["cursor"]; ok {
				cursors = append(cursors, cursor)
			}
			delete(got, "cursor")
			want["sessionId"] = `"ours"`
			if !maps.Equal(want, got) {
				t.Errorf("got %s, want the members of %s", text, events[i])
			}
		}
		want := []string{`"k3f9-0"`, `"k3f9-1"`, `"k3f9-2"`, `"k3f9-3"`, `"k3f9-4"`}
		if !slices.Equal(cursors, want) { // each once, with the last event that it represents
			t.Errorf("got the cursors %v, want %v", cursors, want)
		}
	}
}

func objectOf(t *testing.T, text string) map[string]string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	all := map[string]string{}
	for name, value := range members {
		all[name] = string(value)
	}
	return all
}

// TestMessagesOfOtherSessionsAreDropped has an application use the names that a message has for itself.
func TestMessagesOfOtherSessionsAreDropped(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{"sessionId":"theirs"}`:            `"data":{"sessionId":"theirs"},"sessionId":"ours","cursor":"k3f9-1"}`,
		`{"\u0073essionId":"theirs","a":1}`: `,"a":1},"sessionId":"ours","cursor":"k3f9-1"}`,
		`{"cursor":"k3f9-99"}`:              `"data":{"cursor":"k3f9-99"},"sessionId":"ours","cursor":"k3f9-1"}`,
		`{"sessionId":"ours","a":1}`:        `"sessionId":"ours","a":1,"cursor":"k3f9-1"}`,
		`{"a":1}`:                           `"a":1,"sessionId":"ours","cursor":"k3f9-1"}`,
		`[1]`:                               `"data":[1],"sessionId":"ours","cursor":"k3f9-1"}`,
	} {
		lines := spoken(t, wire.Codec{Framing: wire.Messages},
			event.Metadata{ThreadID: "ours", AgentID: "demo", ProtocolVersion: event.Protocol}, event.Custom{Type: "x", Data: []byte(data)})
		if last := lines[len(lines)-1]; !strings.HasSuffix(last, want) {
			t.Errorf("%s: got %s, want …%s", data, last, want)
		}
	}
}
