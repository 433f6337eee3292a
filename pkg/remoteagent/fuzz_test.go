package remoteagent_test

import (
	"testing"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/sse"
)

// FuzzDecode holds that whatever a stream brings is an event or an error, and that an event which is passed on comes to
// the next reader as the same event.
func FuzzDecode(f *testing.F) {
	f.Add("1", "text_delta", `{"text":"hi"}`)
	f.Add("2", "tool_start", `{"tool":"Edit","file":"a.go","toolCallId":"call_1","input":{"path":"a.go"}}`)
	f.Add("3", "tool_output", `{"tool":"Bash","text":"ok\n"}`)
	f.Add("4", "tool_end", `{"tool":"Edit","success":true,"summary":"done"}`)
	f.Add("5", "status", `{"turnsCompleted":1,"costUsd":0.01,"usage":{"inputTokens":3}}`)
	f.Add("6", "result", `{"status":"completed","result":"done","costUsd":0.02,"turnsCompleted":2,"filesModified":["a.go"]}`)
	f.Add("7", "error", `{"message":"no","recoverable":false,"code":"agent_error"}`)
	f.Add("18446744073709551615", "of_tomorrow", `{ "a" : [1, null] }`)
	f.Add("0", "status", `{}`)
	f.Fuzz(func(t *testing.T, number, name, data string) {
		first, err := remoteagent.Decode(sse.Event{ID: number, Name: name, Data: []byte(data)})
		if err != nil {
			return
		}
		frame, err := first.Append(nil)
		if err != nil {
			return // an unknown event that is not JSON, or a name that is not a field
		}
		var p sse.Parser
		frames, err := p.Feed(frame)
		if err != nil || len(frames) != 1 {
			t.Fatalf("%q became %q, which reads as %d events: %v", data, frame, len(frames), err)
		}
		second, err := remoteagent.Decode(frames[0])
		if err != nil {
			t.Fatalf("%q became %q: %v", data, frame, err)
		}
		again, err := second.Append(nil)
		if err != nil || string(again) != string(frame) {
			t.Errorf("%q became %q, and that %q: %v", data, frame, again, err)
		}
		if remoteagent.IsTerminal(first.Body) != remoteagent.IsTerminal(second.Body) {
			t.Errorf("%q ends the stream for one reader and not for the next", data)
		}
	})
}
