package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/remote"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/hub"
	"github.com/agentbus/agentbus/pkg/spoke"
)

// lab is an agent server that plays a recorded stream, and the hub that knows it.
type lab struct {
	server *httptest.Server
	cuts   int // connections that break behind the second event

	mu        sync.Mutex
	events    []spoke.Event
	tasks     map[string]hub.Assignment // by key
	refuse    map[string]error          // by session to resume
	cancelled []string
}

func newLab(t *testing.T, bodies ...spoke.Body) *lab {
	t.Helper()
	l := &lab{tasks: map[string]hub.Assignment{}}
	for i, b := range bodies {
		l.events = append(l.events, spoke.Event{ID: uint64(i + 1), Body: b})
	}
	l.server = httptest.NewServer(http.HandlerFunc(l.stream))
	t.Cleanup(l.server.Close)
	return l
}

func (l *lab) stream(w http.ResponseWriter, r *http.Request) {
	after, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	w.Header().Set("Content-Type", "text/event-stream")
	l.mu.Lock()
	cut := l.cuts > 0
	l.cuts--
	l.mu.Unlock()
	for _, e := range l.events {
		if e.ID <= after {
			continue
		}
		frame, err := e.Append(nil)
		if err != nil {
			panic(err)
		}
		_, _ = w.Write(frame)
		if cut && e.ID == after+2 {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	_ = http.NewResponseController(w).Flush()
	if len(l.events) == 0 || !spoke.IsTerminal(l.events[len(l.events)-1].Body) {
		<-r.Context().Done()
	}
}

func (l *lab) AssignTask(_ context.Context, a hub.Assignment) (hub.Task, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refuse[a.ResumeSession]; err != nil {
		return hub.Task{}, err
	}
	l.tasks[a.Key] = a
	return hub.Task{TaskID: fmt.Sprintf("task_%d", len(l.tasks)), Status: spoke.Running}, nil
}

func (l *lab) CancelTask(_ context.Context, r hub.TaskRef) (hub.Cancelled, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelled = append(l.cancelled, r.TaskID)
	return hub.Cancelled{TaskID: r.TaskID}, nil
}

func (l *lab) Connect(context.Context, hub.AgentRef) (hub.Connection, error) {
	return hub.Connection{URL: l.server.URL, Key: "k"}, nil
}

var errAbort = errors.New("aborted")

func (l *lab) session(t *testing.T, state backend.State) backend.Session {
	t.Helper()
	b := remote.New(remote.Options{
		Hub: l, HTTP: http.DefaultClient, Tenant: "acme", Ends: func(cause error) bool { return errors.Is(cause, errAbort) },
	})
	s, err := b.Start(t.Context(), backend.Start{State: state, RequestID: "req_1", AgentID: "home-pc-01"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func turn(text string) backend.Turn {
	return backend.Turn{
		RequestID: "req_1", AgentID: "home-pc-01", System: "be brief",
		Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}},
	}
}

func work() []spoke.Body {
	return []spoke.Body{
		spoke.Progress{},
		spoke.TextDelta{Text: "I look. "},
		spoke.ToolStart{Tool: "Edit", File: "a.go", ToolCallID: "c1"},
		spoke.ToolOutput{Tool: "Edit", ToolCallID: "c1", Text: "…"},
		spoke.ToolEnd{Tool: "Edit", File: "a.go", ToolCallID: "c1", Success: true, Summary: "edited"},
		spoke.Progress{TurnsCompleted: 1, CostUSD: 0.25, Usage: &event.Usage{InputTokens: 10, OutputTokens: 5}},
		spoke.ToolStart{Tool: "Bash"},
		spoke.ToolEnd{Tool: "Bash"},
		spoke.TextDelta{Text: "Done."},
		spoke.Progress{TurnsCompleted: 2, CostUSD: 1.25, Usage: &event.Usage{InputTokens: 30, OutputTokens: 9}},
		spoke.Result{Status: spoke.Completed, Result: "Done.", CostUSD: 1.25, TurnsCompleted: 2, SessionID: "s1", Usage: &event.Usage{InputTokens: 30, OutputTokens: 9}},
	}
}

// hear sends a turn and tells the chunks, one a line.
func hear(t *testing.T, s backend.Session, text string) (string, backend.Outcome, error) {
	t.Helper()
	var lines []string
	outcome, err := s.Send(t.Context(), turn(text), func(c backend.Chunk) error {
		lines = append(lines, strings.TrimPrefix(fmt.Sprintf("%T %+v", c, c), "backend."))
		return nil
	})
	return strings.Join(lines, "\n"), outcome, err
}

func TestATaskIsATurn(t *testing.T) {
	t.Parallel()
	l := newLab(t, work()...)
	got, outcome, err := hear(t, l.session(t, backend.State{}), "build it")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"State {ID:task_1@0# Used:{InputTokens:0 OutputTokens:0 CachedInputTokens:0 ReasoningTokens:0 CostUSD:0}}",
		"TextDelta I look. ",
		`ToolStarted {ID:c1 Name:Edit Args:{"file":"a.go"}}`,
		"ToolProgress {ID:c1 Delta:…}",
		"ToolEnded {ID:c1 Status:success Content:edited Summary:edited Elapsed:0s}",
		"Step {Usage:{InputTokens:10 OutputTokens:5 CachedInputTokens:0 ReasoningTokens:0 CostUSD:0.25} Model:}",
		"State {ID:task_1@6# Used:{InputTokens:10 OutputTokens:5 CachedInputTokens:0 ReasoningTokens:0 CostUSD:0.25}}",
		"ToolStarted {ID:tool-6-1 Name:Bash Args:null}",
		"ToolEnded {ID:tool-6-1 Status:error Content: Summary: Elapsed:0s}",
		"TextDelta Done.",
		"State {ID:s1 Used:{InputTokens:0 OutputTokens:0 CachedInputTokens:0 ReasoningTokens:0 CostUSD:0}}",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if outcome.Finish != event.FinishStop || outcome.Usage.CostUSD != 1.25 || outcome.Usage.InputTokens != 30 {
		t.Errorf("got %+v", outcome)
	}
	for _, a := range l.tasks {
		if a.Task != "build it" || a.SystemPrompt != "be brief" || a.Tenant != "acme" || a.AgentID != "home-pc-01" {
			t.Errorf("got %+v", a)
		}
	}
}

func TestAnotherRunnerGoesOnBehindTheLastStep(t *testing.T) {
	t.Parallel()
	l := newLab(t, work()...)
	state := backend.State{ID: "task_1@6#", Used: event.Usage{InputTokens: 10, OutputTokens: 5, CostUSD: 0.25}}
	got, outcome, err := hear(t, l.session(t, state), "build it")
	if err != nil || len(l.tasks) != 0 {
		t.Fatalf("got %v and %d new tasks", err, len(l.tasks))
	}
	if !strings.HasPrefix(got, "ToolStarted {ID:tool-6-1 Name:Bash") || strings.Contains(got, "I look.") {
		t.Errorf("got\n%s", got)
	}
	if outcome.Usage.CostUSD != 1 || outcome.Usage.InputTokens != 20 {
		t.Errorf("got usage %+v, want what came behind the step", outcome.Usage)
	}
}

func TestACutConnectionIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, work()...)
	whole, _, err := hear(t, l.session(t, backend.State{}), "build it")
	if err != nil {
		t.Fatal(err)
	}
	l.cuts = 3
	cut, _, err := hear(t, l.session(t, backend.State{}), "build it")
	if err != nil || cut != whole {
		t.Errorf("got %v\n%s\nwant\n%s", err, cut, whole)
	}
	if len(l.tasks) != 1 {
		t.Errorf("the same request made %d tasks, want one", len(l.tasks))
	}
}

func TestHowATaskEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		end    spoke.Body
		finish event.FinishReason
		code   fault.Code
		again  bool
	}{
		{"a task at its turn limit", spoke.Result{Status: spoke.MaxTurns}, event.FinishMaxTurns, "", false},
		{"a task at its budget", spoke.Result{Status: spoke.MaxBudget}, event.FinishBudget, "", false},
		{"a task that somebody cancelled", spoke.Result{Status: spoke.Cancelled}, "", fault.AgentError, false},
		{"a task that failed for good", spoke.Failure{Message: "out of memory"}, "", fault.AgentError, false},
		{"a task that may be tried again", spoke.Failure{Message: "overloaded", Recoverable: true}, "", fault.AgentError, true},
	}
	for _, tt := range tests {
		_, outcome, err := hear(t, newLab(t, tt.end).session(t, backend.State{}), "x")
		if outcome.Finish != tt.finish || fault.CodeOf(err) != tt.code || err != nil && fault.From(err).Retryable != tt.again {
			t.Errorf("%s: got %q, %v", tt.name, outcome.Finish, err)
		}
	}
	if got, _, err := hear(t, newLab(t, spoke.Result{Status: spoke.Completed, Result: "all"}).session(t, backend.State{}), "x"); err != nil || !strings.Contains(got, "TextDelta all") {
		t.Errorf("a result that was never streamed: got %q, %v", got, err)
	}
}

func TestAnAbortReachesTheAgentAndAHandOverDoesNot(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]int{errAbort: 1, errors.New("the process ends"): 0} {
		l := newLab(t, spoke.TextDelta{Text: "working"})
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := l.session(t, backend.State{}).Send(ctx, turn("x"), func(c backend.Chunk) error {
			if _, ok := c.(backend.TextDelta); ok {
				cancel(cause)
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || len(l.cancelled) != want {
			t.Errorf("%v: got %v and %d cancelled tasks, want %d", cause, err, len(l.cancelled), want)
		}
	}
}

func TestASessionThatIsGoneIsBegunAnew(t *testing.T) {
	t.Parallel()
	l := newLab(t, work()...)
	l.refuse = map[string]error{"old": fault.New(fault.RequestNotFound, "no session")}
	s := l.session(t, backend.State{ID: "old"})
	said := turn("first")
	said.Messages = append(said.Messages,
		backend.Message{Role: backend.Assistant, Parts: []backend.Part{backend.Text{Text: "yes"}}},
		backend.Message{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "second"}}})
	said.Known = 2
	if _, err := s.Send(t.Context(), said, func(backend.Chunk) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for _, a := range l.tasks {
		if a.ResumeSession != "" || !strings.Contains(a.Task, "first") || !strings.Contains(a.Task, "second") {
			t.Errorf("got %+v, want the whole conversation in a new session", a)
		}
	}
}
