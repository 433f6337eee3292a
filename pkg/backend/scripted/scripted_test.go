package scripted_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/scripted"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files anew")

func say(prompt string) backend.Turn {
	return backend.Turn{
		RequestID: "req_1",
		Messages:  []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: prompt}}}},
		Tools:     []tool.Spec{{Name: "clock"}, {Name: "calculator"}},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, func(*testing.T) backendtest.Subject {
		return backendtest.Subject{
			Backend:   backend.Stateless(scripted.New()),
			Text:      say("/say hello there, world"),
			Thinking:  say("/think hm, well\n/say hello"),
			Call:      say("how much is 6*7?"),
			Calls:     say(`/tools clock {}; calculator {"expression":"1+1"}`),
			Retryable: say("/say wait\n/fail agent_error retryable"),
			Final:     say("/nonsense"),
			Endless:   say("/stream 1000 20"),
			Result:    "42",
			After:     "The result is 42.",
		}
	})
}

// TestTranscripts plays whole conversations: every tool call is answered with "ok" until the script is over.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			script, got := archive.Files[0], ""
			synctest.Test(t, func(t *testing.T) { got = transcript(t, say(string(script.Data))) })
			if *update {
				archive.Files = []txtar.File{script, {Name: "chunks", Data: []byte(got)}}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(archive.Files[1].Data); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func transcript(t *testing.T, turn backend.Turn) string {
	t.Helper()
	var b strings.Builder
	for n := 1; ; n++ {
		start := time.Now()
		answer, err := backendtest.Ask(t.Context(), scripted.New(), turn)
		fmt.Fprintf(&b, "turn %d\n", n)
		for _, c := range answer.Chunks {
			fmt.Fprintf(&b, "\t%s %s\n", strings.TrimPrefix(fmt.Sprintf("%T", c), "backend."), line(t, c))
		}
		o := answer.Outcome
		fmt.Fprintf(&b, "\tfinish %s, tokens %d in %d out, after %s, error %v\n",
			o.Finish, o.Usage.InputTokens, o.Usage.OutputTokens, time.Since(start), err)
		if err != nil || o.Finish != event.FinishToolCalls {
			return b.String()
		}
		turn.Messages = answer.Messages(turn, "ok")
	}
}

func line(t *testing.T, c backend.Chunk) []byte {
	t.Helper()
	text, err := json.Marshal(c, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRateIsObserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, n := time.Now(), 0
		_, err := scripted.New().Run(t.Context(), say("/stream 500 50 8"), func(c backend.Chunk) error {
			if want := time.Duration(n) * 20 * time.Millisecond; time.Since(start) != want {
				t.Errorf("delta %d came after %s, want %s", n, time.Since(start), want)
			}
			if text := c.(backend.TextDelta); len(text) != 8 {
				t.Errorf("delta %d is %q, want 8 bytes", n, text)
			}
			n++
			return nil
		})
		if err != nil || n != 500 {
			t.Errorf("got %d deltas and error %v, want 500", n, err)
		}
	})
}

func TestCatchesUpAfterASlowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, n := time.Now(), 0
		_, err := scripted.New().Run(t.Context(), say("/stream 100 10"), func(backend.Chunk) error {
			if n++; n == 1 {
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		if took := time.Since(start); err != nil || took != 9900*time.Millisecond {
			t.Errorf("took %s with error %v, want 9.9s", took, err)
		}
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := backendtest.Ask(ctx, scripted.New(), say("/sleep 1h\n/say never"))
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Second {
			t.Errorf("got %v after %s, want %v after 3s", err, took, context.DeadlineExceeded)
		}
	})
}

func TestFailsAsScripted(t *testing.T) {
	t.Parallel()
	answer, err := backendtest.Ask(t.Context(), scripted.New(), say("/say one two\n/usage 7 8\n/fail stream_timeout"))
	f, ok := errors.AsType[*apierr.Error](err)
	if !ok || f.Code != apierr.StreamTimeout || !f.Retryable || !strings.Contains(f.Message, "line 3") {
		t.Errorf("got %v, want a retryable %s from line 3", err, apierr.StreamTimeout)
	}
	if answer.Text != "one two" || answer.Outcome.Usage != (event.Usage{InputTokens: 7, OutputTokens: 8}) {
		t.Errorf("got %q and %+v in addition to the error", answer.Text, answer.Outcome.Usage)
	}
}

func TestChoosesWhatToDo(t *testing.T) {
	t.Parallel()
	with := func(turn backend.Turn, options string) backend.Turn { turn.Options = []byte(options); return turn }
	without := func(turn backend.Turn) backend.Turn { turn.Tools = nil; return turn }
	second := func(turn backend.Turn, prompt string) backend.Turn {
		turn.Messages = append(turn.Messages,
			backend.Message{Role: backend.Assistant, Parts: []backend.Part{backend.Text{Text: "a"}}},
			say(prompt).Messages[0])
		return turn
	}
	tests := []struct {
		name       string
		turn       backend.Turn
		text, tool string
	}{
		{"a script of the agent wins over the prompt", with(say("/say no"), `{"script":"/say yes","other":1}`), "yes", ""},
		{"options without a script change nothing", with(say("/say yes"), `{}`), "yes", ""},
		{"only the last prompt counts", second(say("/tool clock"), "/say yes"), "yes", ""},
		{"words get the clock", say("hello"), "I am a script, not a model, so I cannot answer that. I can look at the clock.", "clock"},
		{"a script before does not run on", second(say("/tool clock"), "hello"), "I am a script, not a model, so I cannot answer that. I can look at the clock.", "clock"},
		{"arithmetic gets the calculator", say("what is (1 + 2) * 3?"), "I am a script, not a model, but the calculator can work out (1 + 2) * 3.", `calculator {"expression":"(1 + 2) * 3"}`},
		{"a number is not arithmetic", say("I am 42"), "I am a script, not a model, so I cannot answer that. I can look at the clock.", "clock"},
		{"unbalanced parentheses are not arithmetic", say("((1+2"), "I am a script, not a model, so I cannot answer that. I can look at the clock.", "clock"},
		{"without tools there is a hint", without(say("6*7")), "I am a script, not a model, so I cannot answer that. Write lines such as \"/say hello\" or \"/tool clock {}\".", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			answer, err := backendtest.Ask(t.Context(), scripted.New(), tt.turn)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Text != tt.text {
				t.Errorf("got %q, want %q", answer.Text, tt.text)
			}
			called := ""
			for _, c := range answer.Calls {
				called += strings.TrimSuffix(c.Name+" "+c.Args, " {}")
			}
			if called != tt.tool {
				t.Errorf("got call %q, want %q", called, tt.tool)
			}
		})
	}
}

func TestInvalidOptionsAreFinal(t *testing.T) {
	t.Parallel()
	turn := say("hello")
	turn.Options = []byte(`{"script":7}`)
	_, err := backendtest.Ask(t.Context(), scripted.New(), turn)
	if f, ok := errors.AsType[*apierr.Error](err); !ok || f.Code != apierr.AgentError || f.Retryable {
		t.Errorf("got %v, want a final %s", err, apierr.AgentError)
	}
}
