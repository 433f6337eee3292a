package remote_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/remote"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// lab is an agent server that plays a recorded stream, and the hub that knows it.
type lab struct {
	server *httptest.Server
	cuts   int         // connections that break behind the second event
	frozen atomic.Bool // the agent takes connections and says nothing, and the hub has noticed

	mu        sync.Mutex
	events    []remoteagent.Event
	tasks     map[string]hubapi.Assignment // by key
	refuse    map[string]error             // by session to resume
	cancelled []string
	answers   []hubapi.Answer

	answerErrors []error  // of the next answers
	atAgent      []string // paths of cancels that reached the agent itself
}

func newLab(t *testing.T, bodies ...remoteagent.Body) *lab {
	t.Helper()
	l := &lab{tasks: map[string]hubapi.Assignment{}}
	for i, b := range bodies {
		l.events = append(l.events, remoteagent.Event{ID: uint64(i + 1), Body: b})
	}
	l.server = httptest.NewServer(http.HandlerFunc(l.stream))
	t.Cleanup(l.server.Close)
	return l
}

func (l *lab) stream(w http.ResponseWriter, r *http.Request) {
	if l.frozen.Load() {
		<-r.Context().Done()
		return
	}
	if r.URL.Path == "/agent/health" {
		_, _ = io.WriteString(w, `{"healthy":true,"uptime":1,"apiKeyValid":true,"diskFreeGb":1}`)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/cancel") {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.atAgent = append(l.atAgent, r.URL.Path)
		_, _ = io.WriteString(w, `{"success":true}`)
		return
	}
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
	if len(l.events) == 0 || !remoteagent.IsTerminal(l.events[len(l.events)-1].Body) {
		<-r.Context().Done()
	}
}

func (l *lab) AssignTask(_ context.Context, a hubapi.Assignment) (hubapi.Task, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refuse[a.ResumeSession]; err != nil {
		return hubapi.Task{}, err
	}
	l.tasks[a.Key] = a
	return hubapi.Task{TaskID: fmt.Sprintf("task_%d", len(l.tasks)), Status: remoteagent.Running}, nil
}

func (l *lab) CancelTask(_ context.Context, r hubapi.TaskRef) (hubapi.Cancelled, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelled = append(l.cancelled, r.TaskID)
	return hubapi.Cancelled{TaskID: r.TaskID}, nil
}

func (l *lab) AnswerTask(_ context.Context, a hubapi.Answer) (hubapi.Task, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, a)
	if len(l.answerErrors) == 0 {
		return hubapi.Task{TaskID: a.TaskID}, nil
	}
	err := l.answerErrors[0]
	l.answerErrors = l.answerErrors[1:]
	return hubapi.Task{TaskID: a.TaskID}, err
}

func (l *lab) Connect(context.Context, hubapi.AgentRef) (hubapi.Connection, error) {
	return hubapi.Connection{URL: l.server.URL, Key: "k", Online: !l.frozen.Load()}, nil
}

var errAbort = errors.New("aborted")

func (l *lab) session(t *testing.T, state backend.State) backend.Session {
	t.Helper()
	return l.start(t, backend.Start{State: state, RequestID: "req_1", AgentID: "home-pc-01"})
}

func (l *lab) start(t *testing.T, start backend.Start) backend.Session {
	t.Helper()
	b := remote.New(remote.Options{
		Hub: l, HTTP: http.DefaultClient, Tenant: "acme", Ends: func(cause error) bool { return errors.Is(cause, errAbort) },
	})
	s, err := b.Start(t.Context(), start)
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

func work() []remoteagent.Body {
	return []remoteagent.Body{
		remoteagent.Progress{},
		remoteagent.TextDelta{Text: "I look. "},
		remoteagent.ToolStart{Tool: "Edit", File: "a.go", ToolCallID: "c1"},
		remoteagent.ToolOutput{Tool: "Edit", ToolCallID: "c1", Text: "…"},
		remoteagent.ToolEnd{Tool: "Edit", File: "a.go", ToolCallID: "c1", Success: true, Summary: "edited"},
		remoteagent.Progress{TurnsCompleted: 1, CostUSD: 0.25, Usage: &event.Usage{InputTokens: 10, OutputTokens: 5}},
		remoteagent.ToolStart{Tool: "Bash"},
		remoteagent.ToolEnd{Tool: "Bash"},
		remoteagent.TextDelta{Text: "Done."},
		remoteagent.Progress{TurnsCompleted: 2, CostUSD: 1.25, Usage: &event.Usage{InputTokens: 30, OutputTokens: 9}},
		remoteagent.Result{Status: remoteagent.Completed, Result: "Done.", CostUSD: 1.25, TurnsCompleted: 2, SessionID: "s1", Usage: &event.Usage{InputTokens: 30, OutputTokens: 9}},
	}
}

// sendTurn sends a turn and returns the chunks, one on each line.
func sendTurn(t *testing.T, s backend.Session, text string) (string, backend.Outcome, error) {
	t.Helper()
	var lines []string
	outcome, err := s.Send(t.Context(), turn(text), func(c backend.Chunk) error {
		lines = append(lines, line(c))
		return nil
	})
	return strings.Join(lines, "\n"), outcome, err
}

func line(c backend.Chunk) string {
	switch c := c.(type) {
	case backend.State:
		return fmt.Sprintf("State %s $%v", c.ID, c.Used.CostUSD)
	case backend.Settled:
		return fmt.Sprintf("%s > %s $%v", line(c.Chunks[0]), c.State.ID, c.State.Used.CostUSD)
	case backend.ToolStarted:
		return fmt.Sprintf("ToolStarted {ID:%s Name:%s Args:%s}", c.ID, c.Name, cmp.Or(string(c.Args), "null"))
	default:
		return strings.TrimPrefix(fmt.Sprintf("%T %+v", c, c), "backend.")
	}
}

func TestTheTransportIsRemote(t *testing.T) {
	t.Parallel()
	if got := backend.TransportOf(remote.New(remote.Options{})); got != backend.Remote {
		t.Errorf("got %s, want %s", got, backend.Remote)
	}
}

func TestATaskIsATurn(t *testing.T) {
	t.Parallel()
	l := newLab(t, work()...)
	got, outcome, err := sendTurn(t, l.session(t, backend.State{}), "build it")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"State @0@req_1@" + id.Derive("turn", "req_1", "", "0", "1") + "# $0",
		"State task_1@0@req_1# $0",
		"TextDelta I look. ",
		`ToolStarted {ID:c1 Name:Edit Args:{"file":"a.go"}} > task_1@3+@req_1# $0`,
		"ToolProgress {ID:c1 Delta:…}",
		"ToolEnded {ID:c1 Status:success Content:edited Summary:edited Elapsed:0s} > task_1@5+@req_1# $0",
		"Step {Usage:{InputTokens:10 OutputTokens:5 CachedInputTokens:0 CacheWriteTokens:0 ReasoningTokens:0 CostUSD:0.25} Model:} > task_1@6+@req_1# $0.25",
		"ToolStarted {ID:tool-7 Name:Bash Args:null} > task_1@7+@req_1# $0.25",
		"ToolEnded {ID:tool-7 Status:error Content: Summary: Elapsed:0s} > task_1@8+@req_1# $0.25",
		"TextDelta Done.",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if outcome.Finish != event.FinishStop || outcome.Usage.CostUSD != 1.25 || outcome.Usage.InputTokens != 30 || outcome.State.ID != "s1" {
		t.Errorf("got %+v", outcome)
	}
	for _, a := range l.tasks {
		if a.Task != "build it" || a.SystemPrompt != "be brief" || a.Tenant != "acme" || a.AgentID != "home-pc-01" {
			t.Errorf("got %+v", a)
		}
	}
}

// A runner may die behind whatever was stored: the next one begins behind the place that was stored with it.
func TestTakeoverBehindEveryPlace(t *testing.T) {
	t.Parallel()
	l := newLab(t, work()...)
	type stored struct {
		state   backend.State
		running []backend.RunningTool
		lines   []string // up to the place
	}
	var all []string
	var places []stored
	var running []backend.RunningTool
	whole, err := l.session(t, backend.State{}).Send(t.Context(), turn("build it"), func(c backend.Chunk) error {
		all = append(all, line(c))
		settled, ok := c.(backend.Settled)
		if !ok {
			return nil
		}
		switch c := settled.Chunks[0].(type) {
		case backend.ToolStarted:
			running = append(running, backend.RunningTool{ID: c.ID, Name: c.Name})
		case backend.ToolEnded:
			running = nil
		}
		places = append(places, stored{settled.State, running, slices.Clone(all)})
		return nil
	})
	if err != nil || len(places) < 5 {
		t.Fatalf("got %v and %d places", err, len(places))
	}
	for _, p := range places {
		s := l.start(t, backend.Start{State: p.state, RequestID: "req_1", AgentID: "home-pc-01", Running: p.running})
		got, outcome, err := sendTurn(t, s, "build it")
		if err != nil || len(l.tasks) != 1 {
			t.Fatalf("from %s: got %v and %d tasks, want the same one", p.state.ID, err, len(l.tasks))
		}
		if behind := strings.Join(all[len(p.lines):], "\n"); got != behind {
			t.Errorf("from %s: got\n%s\nwant\n%s", p.state.ID, got, behind)
		}
		if outcome.State != whole.State || p.state.Used.Add(outcome.Usage) != whole.Usage {
			t.Errorf("from %s: got %+v, want what is left of %+v", p.state.ID, outcome, whole)
		}
	}
}

// A request that ends before its task leaves a state within the task behind: the thread's next request must not follow it.
func TestTheNextRequestLeavesTheTaskOfTheOneBefore(t *testing.T) {
	t.Parallel()
	l := newLab(t, remoteagent.Result{Status: remoteagent.Completed, Result: "new", SessionID: "s1"})
	state := backend.State{ID: "task_9@4+@req_0#s1", Used: event.Usage{CostUSD: 3}}
	got, _, err := sendTurn(t, l.session(t, state), "continue")
	if err != nil || len(l.tasks) != 1 || !strings.Contains(got, "TextDelta new") {
		t.Fatalf("got %v, %d new tasks and\n%s", err, len(l.tasks), got)
	}
	for _, a := range l.tasks {
		if a.ResumeSession != "s1" {
			t.Errorf("got session %q, want that of the request before", a.ResumeSession)
		}
	}
	if task, key := remote.Task(state, "req_0"); task != "task_9" || key != "" {
		t.Errorf("the task of req_0 is %q, want task_9", task)
	}
	if task, key := remote.Task(state, "req_1"); task != "" || key != "" {
		t.Errorf("the task of req_1 is %q, want none", task)
	}
}

func TestACutConnectionIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t, work()...)
	whole, _, err := sendTurn(t, l.session(t, backend.State{}), "build it")
	if err != nil {
		t.Fatal(err)
	}
	l.cuts = 3
	cut, _, err := sendTurn(t, l.session(t, backend.State{}), "build it")
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
		end    remoteagent.Body
		finish event.FinishReason
		code   apierr.Code
		again  bool
	}{
		{"a task at its turn limit", remoteagent.Result{Status: remoteagent.MaxTurns}, event.FinishMaxTurns, "", false},
		{"a task at its budget", remoteagent.Result{Status: remoteagent.MaxBudget}, event.FinishBudget, "", false},
		{"a task that was cancelled", remoteagent.Result{Status: remoteagent.Cancelled}, "", apierr.AgentError, false},
		{"a task that failed for good", remoteagent.Failure{Message: "out of memory"}, "", apierr.AgentError, false},
		{"a task that may be tried again", remoteagent.Failure{Message: "overloaded", Recoverable: true}, "", apierr.AgentError, true},
	}
	for _, tt := range tests {
		_, outcome, err := sendTurn(t, newLab(t, tt.end).session(t, backend.State{}), "x")
		if outcome.Finish != tt.finish || apierr.CodeOf(err) != tt.code || err != nil && apierr.From(err).Retryable != tt.again {
			t.Errorf("%s: got %q, %v", tt.name, outcome.Finish, err)
		}
	}
	if got, _, err := sendTurn(t, newLab(t, remoteagent.Result{Status: remoteagent.Completed, Result: "all"}).session(t, backend.State{}), "x"); err != nil || !strings.Contains(got, "TextDelta all") {
		t.Errorf("a result that was never streamed: got %q, %v", got, err)
	}
}

func TestAnAbortReachesTheAgentAndAHandOverDoesNot(t *testing.T) {
	t.Parallel()
	for cause, want := range map[error]int{errAbort: 1, errors.New("the process ends"): 0} {
		l := newLab(t, remoteagent.TextDelta{Text: "working"})
		ctx, cancel := context.WithCancelCause(t.Context())
		_, err := l.session(t, backend.State{}).Send(ctx, turn("x"), func(c backend.Chunk) error {
			if _, ok := c.(backend.TextDelta); ok {
				cancel(cause)
			}
			return nil
		})
		if !errors.Is(err, context.Canceled) || len(l.cancelled) != want || len(l.atAgent) != want {
			t.Errorf("%v: got %v, %d tasks cancelled by the hub and %d at the agent, want %d", cause, err, len(l.cancelled), len(l.atAgent), want)
		}
	}
}

func TestMissingSessionIsReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t, work()...)
	l.refuse = map[string]error{"old": apierr.New(apierr.RequestNotFound, "no session")}
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

// A machine that sleeps leaves its connections open and says nothing. The stream says so once the hub has noticed, and
// again when the agent is back, also where the task itself has nothing new.
func TestAFrozenAgentIsReportedWhileItsTaskRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t, remoteagent.TextDelta{Text: "working"})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	notices := make(chan string, 8)
	sent := make(chan error, 1)
	go func() {
		_, err := l.session(t, backend.State{}).Send(ctx, turn("build the house"), func(c backend.Chunk) error {
			switch c := c.(type) {
			case backend.TextDelta:
				l.frozen.Store(true)
			case backend.Warning:
				notices <- string(c)
			}
			return nil
		})
		sent <- err
	}()
	want := []string{hubapi.Offline("home-pc-01", "build the house"), "Agent [home-pc-01] is back."}
	for _, text := range want {
		select {
		case got := <-notices:
			if got != text {
				t.Errorf("got %q, want %q", got, text)
			}
		case <-time.After(40 * time.Second):
			t.Fatalf("%q has not come", text)
		}
		l.frozen.Store(false)
	}
	cancel(errAbort)
	if err := <-sent; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The hub may have given a task to the agent without its answer having arrived. The log then names the assignment, also
// where a turn resumes a session, and a runner that takes the request over asks under the same key.
func TestTheLogNamesAnAssignmentBeforeTheHubIsAsked(t *testing.T) {
	t.Parallel()
	for _, state := range []backend.State{{}, {ID: "s1"}} {
		l := newLab(t, work()...)
		var asked backend.State
		_, err := l.session(t, state).Send(t.Context(), turn("build it"), func(c backend.Chunk) error {
			if s, ok := c.(backend.State); ok && asked.ID == "" {
				asked = s
				if len(l.tasks) > 0 {
					t.Error("the hub was asked first")
				}
				return errAbort // as if the runner died
			}
			return nil
		})
		task, key := remote.Task(asked, "req_1")
		if !errors.Is(err, errAbort) || task != "" || key == "" {
			t.Fatalf("got %v, and the task %q and the key %q of %q", err, task, key, asked.ID)
		}
		if _, _, err := sendTurn(t, l.session(t, asked), "build it"); err != nil {
			t.Fatal(err)
		}
		if a, ok := l.tasks[key]; !ok || len(l.tasks) != 1 || a.ResumeSession != state.ID {
			t.Errorf("after a takeover from %q: got %+v, want one task under %q", asked.ID, l.tasks, key)
		}
		if task, key := remote.Task(asked, "req_2"); task != "" || key != "" {
			t.Errorf("another request: got the task %q and the key %q", task, key)
		}
	}
}
