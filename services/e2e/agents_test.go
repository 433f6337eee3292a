package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// ask is a line of a script that has an agent run a script.
func ask(agent string, lines ...string) string {
	args, err := json.Marshal(map[string]string{"task": strings.Join(lines, "\n")})
	if err != nil {
		panic(err)
	}
	return "/tool agent__" + agent + " " + string(args)
}

// postAll is post with every event that there is.
func postAll(t *testing.T, agent, body string) transcript {
	t.Helper()
	return readStream(t, call(t.Context(), t, http.MethodPost, "/v1/agents/"+agent+"/stream?include=extended", body), -1)
}

// inner gives the events of the agents that a request has called itself, by their requests.
func inner(t *testing.T, events []event.Event) map[string][]event.Event {
	t.Helper()
	requests := map[string][]event.Event{}
	for _, e := range events {
		told, ok := e.Body.(event.Subagent)
		if !ok {
			continue
		}
		one, err := event.Decode(told.Inner)
		if err != nil {
			t.Fatal(err)
		}
		requests[one.RequestID] = append(requests[one.RequestID], one)
	}
	return requests
}

func TestAnAgentCallsAnotherAndShowsWhatItDoes(t *testing.T) {
	t.Parallel()
	tr := postAll(t, "lead", prompt(ask("helper", "/say deep", `/tool calculator {"expression":"6*7"}`, "/usage 700 70", "/say down"), "/say outer"))
	d := tr.done(t)
	if got := tr.results()["agent__helper"]; got.Status != event.ToolSuccess || answerText(d) != "outer" {
		t.Fatalf("got %+v, %q", got, answerText(d))
	}
	requests := inner(t, tr.Events)
	if len(requests) != 1 {
		t.Fatalf("got the events of %d requests, want one", len(requests))
	}
	for requestID, events := range requests {
		var names []event.Name
		next := int64(-1)
		for _, e := range events {
			_, n, err := event.ParseCursor(string(e.ID))
			if err != nil || int64(n) <= next {
				t.Errorf("event %s comes after %d, %v", e.ID, next, err)
			}
			next, names = int64(n), append(names, e.Body.Name())
		}
		if names[0] != event.NameMetadata || names[len(names)-1] != event.NameDone || slices.Contains(names, event.NameInput) {
			t.Errorf("got %v, want what the helper did and no more", names)
		}
		own := resume(t, requestID, "")
		if got := answerText(own.done(t)); got != "deep|down" {
			t.Errorf("the helper's own log says %q", got)
		}
		if below := own.done(t).Usage; d.Usage.InputTokens < 700 || d.Usage.InputTokens <= below.InputTokens {
			t.Errorf("got usage %+v, want it to hold the helper's %+v", d.Usage, below)
		}
	}
	if slices.Contains(strings.Fields(post(t, "lead", prompt(ask("helper", "/say x"))).shape()), "subagent") {
		t.Error("a client that includes nothing gets the nine native events")
	}
}

func TestActionOfCalledAgentReachesCaller(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		agent  string
		script string
		tool   string // agent that is called
	}{
		{"an agent that was called", "lead", ask("helper", `/approve echo {"text":"careful"}`, "/say after"), "agent__helper"},
		{
			"an agent that was called by one that was called", "lead",
			ask("deputy", ask("helper", `/approve echo {"text":"careful"}`, "/say after"), "/say between"), "agent__deputy",
		},
	}
	for _, test := range tests {
		for decision, want := range map[event.ActionStatus]event.ToolStatus{
			event.ActionSuccess: event.ToolSuccess, event.ActionDenied: event.ToolDenied,
		} {
			t.Run(test.name+", "+string(decision), func(t *testing.T) {
				t.Parallel()
				first := postAll(t, test.agent, prompt(test.script, "/say end"))
				action := only[event.Continuation](t, first)
				if p := action.Payload; action.Kind != event.ContinueApproval || p.Tool != "echo" || p.Agent == nil || "agent__"+p.Agent.AgentID != test.tool {
					t.Fatalf("got %+v, want an approval of echo that the agent asks for", action)
				}
				body := resolve(first.ThreadID, event.ActionResult{ActionID: action.ActionID, Status: decision})
				next := postAll(t, test.agent, body)
				if got := answerText(next.done(t)); got != "end" || next.results()[test.tool].Status != event.ToolSuccess {
					t.Fatalf("got %q, %+v, in %s", got, next.results(), next.shape())
				}
				if got := statusOfEcho(t, next.Events); got != want {
					t.Errorf("deep down, echo ended with %q, want %q", got, want)
				}
			})
		}
	}
}

// statusOfEcho finds how the tool echo ended, however deep.
func statusOfEcho(t *testing.T, events []event.Event) (status event.ToolStatus) {
	t.Helper()
	for _, e := range events {
		if r, ok := e.Body.(event.ToolResult); ok && r.Tool == "echo" && r.Stage == event.StageStop && !r.Discarded {
			status = r.Status
		}
	}
	for _, below := range inner(t, events) {
		if s := statusOfEcho(t, below); s != "" {
			status = s
		}
	}
	return status
}

func TestPermissionsAreRequestedOneByOne(t *testing.T) {
	t.Parallel()
	tr := postAll(t, "lead", prompt(ask("helper", `/ask First?`, `/ask Second?`, "/say thanks"), "/say end"))
	for _, question := range []string{"First?", "Second?"} {
		action := only[event.Continuation](t, tr)
		if action.Kind != event.ContinueInput || action.Payload.Question != question {
			t.Fatalf("got %+v, want %q", action, question)
		}
		tr = postAll(t, "lead", resolve(tr.ThreadID, success(action.ActionID, `"yes"`)))
	}
	if got := answerText(tr.done(t)); got != "end" {
		t.Errorf("got %q", got)
	}
}

func TestAgentCallNeedsApproval(t *testing.T) {
	t.Parallel()
	tr := postAll(t, "careful", prompt(ask("helper", `/ask Sure?`, "/say thanks"), "/say end"))
	action := only[event.Continuation](t, tr)
	if action.Kind != event.ContinueApproval || action.Payload.Tool != "agent__helper" || len(inner(t, tr.Events)) > 0 {
		t.Fatalf("got %+v, want an approval of the call, and nothing done", action)
	}
	tr = postAll(t, "careful", resolve(tr.ThreadID, success(action.ActionID, "")))
	if action = only[event.Continuation](t, tr); action.Payload.Question != "Sure?" {
		t.Fatalf("got %+v, want the helper's question", action)
	}
	tr = postAll(t, "careful", resolve(tr.ThreadID, success(action.ActionID, `"yes"`)))
	if got := tr.results()["agent__helper"]; got.Status != event.ToolSuccess || answerText(tr.done(t)) != "end" {
		t.Errorf("got %+v in %s", got, tr.shape())
	}
}

func TestAbortReachesChildRequests(t *testing.T) {
	t.Parallel()
	body := prompt(ask("deputy", ask("helper", "/stream 20000 100")))
	response := call(t.Context(), t, http.MethodPost, "/v1/agents/lead/stream?include=extended", body)
	tr := readStream(t, response, 60) // the helper speaks
	abort(t, tr.RequestID)
	endsAborted(t, tr.RequestID)
	depth := 0
	for events := tr.Events; ; depth++ {
		below := inner(t, events)
		if len(below) == 0 {
			break
		}
		for requestID, next := range below {
			endsAborted(t, requestID)
			events = next
		}
	}
	if depth != 2 {
		t.Errorf("saw %d levels of agents, want 2", depth)
	}
}

func TestBudgetCoversChildRequests(t *testing.T) {
	t.Parallel()
	helper := []string{"/say some", "/usage 2000 1", `/tool echo {"text":"x","delay":"30s"}`, "/say never"}
	for name, script := range map[string]string{
		"of one level":  ask("helper", helper...),
		"of two levels": ask("deputy", ask("helper", helper...)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			tr := postAll(t, "thrifty", prompt(script, "/say end"))
			d := tr.done(t)
			if d.FinishReason != event.FinishBudget || d.Usage.InputTokens < 2000 || time.Since(begun) > 20*time.Second {
				t.Errorf("got %s with %+v after %s, want it to end with the budget", d.FinishReason, d.Usage, time.Since(begun))
			}
			for requestID := range inner(t, tr.Events) {
				endsAborted(t, requestID)
			}
		})
	}
}

func TestAgentCallsOverDepthOrInCycleFail(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, agent, script, want string }{
		{"a circle", "lead", ask("deputy", ask("lead", "/say x")), "waits for this answer itself (lead called deputy)"},
		{"too deep", "shallow", ask("deputy", ask("helper", "/say x")), "1 levels deep"},
		{"an agent that it may not call", "lead", ask("demo", "/say x"), `there is no tool "agent__demo"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			tr := postAll(t, test.agent, prompt(test.script))
			if got := fmt.Sprint(tr.Lines); !strings.Contains(got, test.want) && !strings.Contains(got, strings.ReplaceAll(test.want, `"`, `\"`)) {
				t.Errorf("no model got %q:\n%s", test.want, strings.Join(tr.Lines, "\n"))
			}
			tr.done(t)
		})
	}
}

func TestAgentsThatWaitLeaveTheirPlaces(t *testing.T) {
	t.Parallel()
	const crowd = 40 // more than a runner has places for, each waiting for two more
	ended := make(chan transcript, crowd)
	for range crowd {
		go func() { ended <- post(t, "lead", prompt(ask("deputy", ask("helper", "/say x")), "/say end")) }()
	}
	for range crowd {
		select {
		case tr := <-ended:
			if got := answerText(tr.done(t)); got != "end" {
				t.Errorf("got %q in %s", got, tr.shape())
			}
		case <-time.After(time.Minute):
			t.Fatal("requests that wait for agents have taken the places of those agents")
		}
	}
}

// teamOfLab is agents of which one calls the other, in a stack whose processes are killed.
const teamOfLab = `
agents:
  demo: {backend: scripted, tools: [echo], agents: [helper]}
  helper: {backend: scripted, tools: [echo]}
`

// TestAKilledProcessWhileAnAgentWaitsForAnother kills the process that works for the called agent: the call ends all
// the same, and what happens shows once.
func TestAKilledProcessWhileAnAgentWaitsForAnother(t *testing.T) {
	l := newLab(t, setup{
		counts: map[string]int{"agent-runner": 2, "tool-executor": 2}, database: database(t), agents: teamOfLab,
	})
	for _, service := range []string{"tool-executor", "agent-runner"} {
		t.Run(service, func(t *testing.T) {
			works, waits := l.alone(t, service)
			body := prompt(ask("helper", "/say deep", `/tool echo {"text":"one two three four five","delay":"3s"}`, "/say down"), "/say end")
			w := l.read(t.Context(), t, http.MethodPost, l.URL+"/v1/agents/demo/stream?include=extended", body)
			eventually(t, time.Minute, func() error {
				if tr := w.seen(); !strings.Contains(strings.Join(tr.Lines, ""), `"name":"echo"`) {
					return fmt.Errorf("the agent that was called does not run its tool: %s", tr.shape())
				}
				return nil
			})
			start(t, waits)
			works.Kill()
			tr := w.end(t, 2*time.Minute)
			d := tr.done(t)
			if got := tr.results()["agent__helper"]; got.Status != event.ToolSuccess || !strings.Contains(answerText(d), "end") {
				t.Errorf("got %+v, %q", got, answerText(d))
			}
			for requestID, events := range inner(t, tr.Events) {
				seen := map[event.Cursor]bool{}
				for _, e := range events {
					if seen[e.ID] {
						t.Errorf("event %s of request %s shows twice", e.ID, requestID)
					}
					seen[e.ID] = true
				}
				if last := events[len(events)-1]; last.Body.Name() != event.NameDone {
					t.Errorf("request %s shows up to %s, want done", requestID, last.Body.Name())
				}
			}
			start(t, works)
		})
	}
}
