package screen_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

func block(id string, stage event.Stage) event.Block { return event.Block{BlockID: id, Stage: stage} }

func text(id string, parts ...string) []event.Body {
	bodies := []event.Body{event.Text{Block: block(id, event.StageStart)}}
	for _, p := range parts {
		bodies = append(bodies, event.Text{Block: block(id, event.StageDelta), Delta: p})
	}
	return append(bodies, event.Text{Block: block(id, event.StageStop), Text: strings.Join(parts, "")})
}

func TestShow(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		events    []event.Body
		out, side string
	}{
		"text, as it comes": {text("b0", "hel", "lo"), "hello\n", ""},
		"two blocks":        {append(text("b0", "one\n"), text("b1", "two")...), "one\ntwo\n", ""},
		"a block that was joined late is shown at its end": {
			[]event.Body{event.Text{Block: block("b0", event.StageStop), Text: "whole"}}, "whole\n", "",
		},
		"a discarded block": {
			[]event.Body{
				event.Text{Block: block("b0", event.StageDelta), Delta: "wro"},
				event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageStop, Discarded: true}},
			},
			"wro\n", "(that does not count: it is being said again)\n",
		},
		"thinking goes to the other output": {
			[]event.Body{
				event.Thinking{Block: block("b0", event.StageStart)}, event.Thinking{Block: block("b0", event.StageDelta), Delta: "hm"},
				event.Thinking{Block: block("b0", event.StageStop), Thinking: "hm"},
			},
			"", "hm\n",
		},
		"a tool": {
			[]event.Body{
				event.ToolCall{Block: block("b0", event.StageStart), Tool: "clock"},
				event.ToolCall{Block: block("b0", event.StageStop), Tool: "clock", Args: json.RawMessage(`{"zone": "UTC"}`)},
				event.ToolResult{Block: block("b1", event.StageStart), Tool: "clock"},
				event.ToolResult{Block: block("b1", event.StageDelta), Delta: "tick\n"},
				event.ToolResult{Block: block("b1", event.StageStop), Tool: "clock", Status: event.ToolSuccess, Summary: "noon"},
			},
			"", "→ clock {\"zone\": \"UTC\"}\n  tick\n← noon\n",
		},
		"a tool that failed": {
			[]event.Body{event.ToolResult{Block: block("b1", event.StageStop), Status: event.ToolDenied, Summary: "not now"}},
			"", "← denied: not now\n",
		},
		"a plan": {
			[]event.Body{event.Plan{Stage: event.StageStart, Steps: []event.PlanStep{{Content: "look", Done: true}, {Content: "leap"}}}},
			"", "plan:\n  [x] look\n  [ ] leap\n",
		},
		"what was said":           {[]event.Body{event.Input{Messages: []event.InputMessage{event.UserText("hi")}}}, "", "> hi\n"},
		"a notice":                {[]event.Body{event.Notice{Level: "warning", Message: "slow"}}, "", "warning: slow\n"},
		"an answer that was cut":  {[]event.Body{event.Done{FinishReason: event.FinishLength}}, "", "the answer ends here: length\n"},
		"an answer that is whole": {[]event.Body{event.Done{FinishReason: event.FinishStop}}, "", ""},
		"an error":                {[]event.Body{event.Error{Code: "agent_error", Message: "no luck"}}, "", "error: no luck (agent_error)\n"},
		"an event from the future": {
			[]event.Body{event.Unknown{Event: "later", Rest: event.NewMembers(json.RawMessage(`{}`))}}, "", "",
		},
		"text that would command the terminal": {
			text("b0", "\x1b]0;owned\x07\x1b[2J\u202eabc\u2066\r\nx\tyé👩‍👩‍👧"), "]0;owned[2Jabc\nx\tyé👩‍👩‍👧\n", "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, side bytes.Buffer
			s := screen.New(&out, &side, screen.Options{})
			for _, body := range test.events {
				if err := s.Show(event.Event{Body: body}); err != nil {
					t.Fatal(err)
				}
			}
			if out.String() != test.out || side.String() != test.side {
				t.Errorf("got %q and aside %q, want %q and %q", out.String(), side.String(), test.out, test.side)
			}
		})
	}
}

func TestATerminalHasOneOrder(t *testing.T) {
	t.Parallel()
	var tty bytes.Buffer
	s := screen.New(&tty, &tty, screen.Options{Colour: true, Echo: true})
	events := append(text("b0", "look"), event.ToolCall{Block: block("b1", event.StageStop), Tool: "clock", Args: json.RawMessage(`{}`)})
	events = append(events, event.Text{Block: block("b2", event.StageDelta), Delta: "and"})
	for _, body := range events {
		if err := s.Show(event.Event{Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Ask("Allow? "); err != nil {
		t.Fatal(err)
	}
	tty.WriteString("y\n") // the terminal echoes what is typed
	if err := s.Aside("done"); err != nil {
		t.Fatal(err)
	}
	want := "look\n\x1b[2m→ clock {}\x1b[0m\nand\n\x1b[1mAllow? \x1b[0my\n\x1b[2mdone\x1b[0m\n"
	if tty.String() != want {
		t.Errorf("got %q, want %q", tty.String(), want)
	}
}

func TestJSONIsOneEventALine(t *testing.T) {
	t.Parallel()
	var out, side bytes.Buffer
	s := screen.New(&out, &side, screen.Options{JSON: true})
	e := event.Event{ID: "one-3", RequestID: "req_1", Time: time.Unix(0, 0), Body: event.Text{Block: block("b0", event.StageDelta), Delta: "\x1b"}}
	if err := errors.Join(s.Show(e), s.Aside("nothing")); err != nil {
		t.Fatal(err)
	}
	got, err := event.Decode(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
	if err != nil || got.ID != e.ID || got.Body.(event.Text).Delta != "\x1b" || side.Len() != 0 {
		t.Errorf("got %q, %v, aside %q", out.String(), err, side.String())
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	var nowhere bytes.Buffer
	s := screen.New(&nowhere, &nowhere, screen.Options{})
	for _, step := range []struct {
		body event.Body
		want error
	}{
		{event.Metadata{}, nil}, {event.Aborted{}, screen.ErrShown}, {event.Done{}, nil}, {event.Error{}, screen.ErrShown}, {event.Text{}, screen.ErrShown},
	} {
		if err := s.Show(event.Event{Body: step.body}); err != nil {
			t.Fatal(err)
		}
		if got := s.Result(); !errors.Is(got, step.want) {
			t.Errorf("after %s: got %v, want %v", step.body.Name(), got, step.want)
		}
	}
}

func TestAMessageOfAThread(t *testing.T) {
	t.Parallel()
	var out, side bytes.Buffer
	s := screen.New(&out, &side, screen.Options{})
	err := errors.Join(
		s.Message(historyapi.Message{Role: "user", Input: event.UserText("hi").Content}),
		s.Message(historyapi.Message{Role: "assistant", Content: []event.Content{
			{Type: event.ContentThinking, Thinking: "hm"}, {Type: event.ContentText, Text: "hello"},
			{Type: event.ContentToolUse, Name: "clock", Args: json.RawMessage(`{}`)}, {Type: event.ContentToolResult, Summary: "noon"},
		}}),
	)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != "hello\n" || side.String() != "> hi\nhm\n→ clock {}\n← noon\n" {
		t.Errorf("got %q and aside %q", out.String(), side.String())
	}
}

type closed struct{}

var errClosed = errors.New("closed")

func (closed) Write([]byte) (int, error) { return 0, errClosed }

func TestAClosedTerminalIsAnError(t *testing.T) {
	t.Parallel()
	s := screen.New(closed{}, closed{}, screen.Options{})
	if err := s.Show(event.Event{Body: text("b0", "x")[1]}); !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[31m\u202e\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		once := screen.Clean(s)
		if strings.ContainsAny(once, "\x1b\r\x07\x00\u202e\u2028\u009b") || screen.Clean(once) != once {
			t.Errorf("%q became %q", s, once)
		}
	})
}
