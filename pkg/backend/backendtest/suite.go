// Package backendtest is the conformance suite of package [backend]. A new backend must pass Run and, if it calls a
// provider over HTTP, Replay, Faults and Retries.
package backendtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// Subject is a backend under test, with the turns that make it do something. Each turn is a whole conversation.
type Subject struct {
	Backend backend.Backend

	Text      backend.Turn // is answered with text alone
	Thinking  backend.Turn // is answered with thinking and then text; zero for a backend that never thinks
	Call      backend.Turn // is answered with exactly one tool call; zero for an agent that runs its own tools
	Calls     backend.Turn // is answered with several tool calls; zero for such an agent
	Tools     backend.Turn // makes such an agent run tools and then answer; zero for a model
	Retryable backend.Turn // fails, and may work later
	Final     backend.Turn // fails, and will fail again
	Endless   backend.Turn // is answered for more than ten seconds, the first chunk at once

	Resumes bool   // the backend keeps sessions
	Result  string // what the tool of Call gives
	After   string // part of the answer once Result is there
}

// Run checks the backend that open makes. Open is called once for each test.
func Run(t *testing.T, open func(t *testing.T) Subject) {
	t.Helper()
	tests := []struct {
		name string
		run  func(*testing.T, Subject)
	}{
		{"answers with text", answersWithText},
		{"thinks before it answers", thinks},
		{"runs its own tools", runsTools},
		{"resumes its session", resumes},
		{"calls a tool", callsTool},
		{"calls several tools in one turn", callsTools},
		{"continues with a tool's result", goesOn},
		{"says that a failure may pass", failsForNow},
		{"says that a failure will stay", failsForGood},
		{"stops within a second of a cancellation at a chunk", stopsAtChunk},
		{"stops within a second of a cancellation between chunks", stopsBetweenChunks},
		{"stops at a deadline", stopsAtDeadline},
		{"does not start when already cancelled", doesNotStart},
		{"ends with the error of emit", endsWithEmitError},
		{"keeps concurrent runs apart", keepsRunsApart},
		{"does not change the turn it was given", keepsTurn},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(t, open(t))
		})
	}
}

// sessions runs each turn in a new session.
func (s Subject) sessions() backend.Model { return sessions{s.Backend} }

type sessions struct{ backend backend.Backend }

// Run implements [backend.Model].
func (s sessions) Run(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	session, err := s.backend.Start(ctx, backend.Start{RequestID: turn.RequestID, ThreadID: turn.ThreadID})
	if err != nil {
		return backend.Outcome{}, err
	}
	outcome, err := session.Send(ctx, turn, emit)
	return outcome, errors.Join(err, session.Stop(context.WithoutCancel(ctx)))
}

func ask(t *testing.T, b backend.Model, turn backend.Turn) Answer {
	t.Helper()
	if len(turn.Messages) == 0 {
		t.Fatal("the subject has no such turn")
	}
	a, err := Ask(t.Context(), b, turn)
	if err != nil {
		t.Fatalf("run: %v\nchunks: %q", err, a.Chunks)
	}
	if a.Outcome.Usage.InputTokens <= 0 || a.Outcome.Usage.OutputTokens <= 0 {
		t.Errorf("usage is not reported: got %+v", a.Outcome.Usage)
	}
	if a.Outcome.Model == "" {
		t.Error("the model that answered is not reported")
	}
	return a
}

func answersWithText(t *testing.T, s Subject) {
	a := ask(t, s.sessions(), s.Text)
	if a.Text == "" || a.Thinking != "" || len(a.Calls) > 0 {
		t.Errorf("got text %q, thinking %q, calls %v, want text alone", a.Text, a.Thinking, a.Calls)
	}
	if a.Outcome.Finish != event.FinishStop {
		t.Errorf("got finish %q, want %q", a.Outcome.Finish, event.FinishStop)
	}
}

func thinks(t *testing.T, s Subject) {
	if len(s.Thinking.Messages) == 0 {
		return
	}
	a := ask(t, s.sessions(), s.Thinking)
	if a.Thinking == "" || a.Text == "" {
		t.Errorf("got thinking %q and text %q, want both", a.Thinking, a.Text)
	}
	said := slices.DeleteFunc(slices.Clone(a.Chunks), func(c backend.Chunk) bool { _, is := c.(backend.State); return is })
	if _, first := said[0].(backend.ThinkingDelta); !first {
		t.Errorf("got %T first, want thinking", said[0])
	}
}

// calls reports whether the subject calls tools, which it must when it runs none by itself.
func (s Subject) calls(t *testing.T) bool {
	t.Helper()
	if len(s.Call.Messages)+len(s.Tools.Messages) == 0 {
		t.Fatal("the subject has no turn with tools")
	}
	return len(s.Call.Messages) > 0
}

func runsTools(t *testing.T, s Subject) {
	if s.calls(t) {
		return
	}
	a := ask(t, s.sessions(), s.Tools)
	if len(a.Tools) == 0 || a.Text == "" || a.Outcome.Finish != event.FinishStop {
		t.Errorf("it ran %v, said %q and finished with %q, want tools and an answer", a.Tools, a.Text, a.Outcome.Finish)
	}
	for _, tool := range a.Tools {
		if !tool.Ended {
			t.Errorf("tool %s has not ended", tool.Name)
		}
	}
}

// resumes starts the session again that a first turn has left.
func resumes(t *testing.T, s Subject) {
	if !s.Resumes {
		return
	}
	state := func(start backend.Start, turn backend.Turn) (newest backend.State) {
		session, err := s.Backend.Start(t.Context(), start)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.Send(t.Context(), turn, func(c backend.Chunk) error {
			if told, ok := c.(backend.State); ok {
				newest = told
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := session.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		return newest
	}
	first := state(backend.Start{ThreadID: "thr_1"}, s.Text)
	if first.ID == "" {
		t.Fatal("the backend reports no session state")
	}
	turn := s.Text
	turn.Known = len(turn.Messages)
	turn.Messages = append(slices.Clone(turn.Messages), s.Text.Messages...)
	if second := state(backend.Start{ThreadID: "thr_1", State: first}, turn); second.ID != first.ID {
		t.Errorf("resumed, the session is %q, want %q", second.ID, first.ID)
	}
}

func callsTool(t *testing.T, s Subject) {
	if !s.calls(t) {
		return
	}
	if a := ask(t, s.sessions(), s.Call); len(a.Calls) != 1 {
		t.Errorf("got calls %v, want one", a.Calls)
	}
}

func callsTools(t *testing.T, s Subject) {
	if !s.calls(t) {
		return
	}
	if a := ask(t, s.sessions(), s.Calls); len(a.Calls) < 2 {
		t.Errorf("got calls %v, want several", a.Calls)
	}
}

func goesOn(t *testing.T, s Subject) {
	if !s.calls(t) {
		return
	}
	first := ask(t, s.sessions(), s.Call)
	next := s.Call
	next.Messages = first.Messages(s.Call, s.Result)
	second := ask(t, s.sessions(), next)
	if len(second.Calls) > 0 || second.Outcome.Finish != event.FinishStop {
		t.Errorf("got calls %v and finish %q, want an answer", second.Calls, second.Outcome.Finish)
	}
	if s.After == "" || !strings.Contains(second.Text, s.After) {
		t.Errorf("got %q, want it to contain %q", second.Text, s.After)
	}
}

func failsForNow(t *testing.T, s Subject) { fails(t, s.sessions(), s.Retryable, true) }

func failsForGood(t *testing.T, s Subject) { fails(t, s.sessions(), s.Final, false) }

func fails(t *testing.T, b backend.Model, turn backend.Turn, retryable bool) {
	t.Helper()
	_, err := Ask(t.Context(), b, turn)
	f, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		t.Fatalf("got error %v, want a *fault.Error", err)
	}
	if f.Code != apierr.AgentError || f.Retryable != retryable {
		t.Errorf("got %s, retryable %t, want %s, retryable %t", f.Code, f.Retryable, apierr.AgentError, retryable)
	}
	if len(f.Message) < 10 || strings.ContainsAny(f.Message, "\n\r") {
		t.Errorf("got message %q, want one line that says what to do", f.Message)
	}
}

// prompt is how soon a backend stops.
const prompt = time.Second

func stopsAtChunk(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var at time.Time
	_, err := s.sessions().Run(ctx, s.Endless, func(backend.Chunk) error {
		if at.IsZero() {
			at = time.Now()
			cancel()
		}
		return nil
	})
	stopped(t, err, context.Canceled, at)
}

func stopsBetweenChunks(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var once sync.Once
	at := make(chan time.Time, 1)
	_, err := s.sessions().Run(ctx, s.Endless, func(backend.Chunk) error {
		once.Do(func() { time.AfterFunc(50*time.Millisecond, func() { at <- time.Now(); cancel() }) })
		return nil
	})
	select {
	case cancelled := <-at:
		stopped(t, err, context.Canceled, cancelled)
	default:
		t.Fatalf("the endless turn ended by itself: %v", err)
	}
}

func stopsAtDeadline(t *testing.T, s Subject) {
	const limit = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	deadline := time.Now().Add(limit)
	_, err := s.sessions().Run(ctx, s.Endless, func(backend.Chunk) error { return nil })
	stopped(t, err, context.DeadlineExceeded, deadline)
}

func stopped(t *testing.T, err, want error, at time.Time) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
	if at.IsZero() {
		t.Fatal("no chunk came")
	}
	if late := time.Since(at); late > prompt {
		t.Errorf("stopped after %s, want %s at most", late, prompt)
	}
}

func doesNotStart(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	chunks := 0
	_, err := s.sessions().Run(ctx, s.Text, func(backend.Chunk) error { chunks++; return nil })
	if !errors.Is(err, context.Canceled) || chunks > 0 {
		t.Errorf("got %d chunks and error %v, want none and %v", chunks, err, context.Canceled)
	}
}

func endsWithEmitError(t *testing.T, s Subject) {
	full := errors.New("the log is full")
	for _, turn := range given(s.Text, s.Call, s.Tools, s.Endless) {
		for _, at := range []int{1, 2} {
			chunks := 0
			_, err := s.sessions().Run(t.Context(), turn, func(backend.Chunk) error {
				if chunks++; chunks < at {
					return nil
				}
				return full
			})
			if !errors.Is(err, full) || chunks != at {
				t.Errorf("error at chunk %d: got %d chunks and error %v, want %v", at, chunks, err, full)
			}
		}
	}
}

// given are the turns that the subject has.
func given(turns ...backend.Turn) []backend.Turn {
	return slices.DeleteFunc(turns, func(turn backend.Turn) bool { return len(turn.Messages) == 0 })
}

func keepsRunsApart(t *testing.T, s Subject) {
	turns := given(s.Text, s.Call, s.Calls, s.Tools)
	want := make([]Answer, len(turns))
	for i, turn := range turns {
		want[i] = ask(t, s.sessions(), turn)
	}
	var all sync.WaitGroup
	for i := range 8 * len(turns) {
		all.Go(func() {
			k := i % len(turns)
			got, err := Ask(t.Context(), s.sessions(), turns[k])
			if err != nil {
				t.Errorf("run: %v", err)
				return
			}
			if got.Text != want[k].Text || len(got.Calls) != len(want[k].Calls) {
				t.Errorf("got %q and calls %v, want %q and calls %v", got.Text, got.Calls, want[k].Text, want[k].Calls)
			}
		})
	}
	all.Wait()
}

func keepsTurn(t *testing.T, s Subject) {
	if !s.calls(t) {
		return
	}
	first := ask(t, s.sessions(), s.Call)
	next := s.Call
	next.Messages = first.Messages(s.Call, s.Result)
	before := len(next.Messages)
	args := next.Messages[before-2].Parts[len(next.Messages[before-2].Parts)-1].(backend.Call).Args
	kept := string(args)
	ask(t, s.sessions(), next)
	if len(next.Messages) != before || string(args) != kept {
		t.Errorf("got %d messages and arguments %s, want %d and %s", len(next.Messages), args, before, kept)
	}
}
