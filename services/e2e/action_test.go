package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

// clockTolerance is more than what an action's expiry is stretched by, since clocks differ.
const clockTolerance = 6 * time.Second

// paused runs a script that must stop for actions, and returns them.
func paused(t *testing.T, agent string, lines ...string) (transcript, []event.Continuation) {
	t.Helper()
	tr := post(t, agent, prompt(lines...))
	if got := tr.done(t).FinishReason; got != event.FinishActionRequired {
		t.Fatalf("got finish reason %s, want action_required, in %s", got, tr.shape())
	}
	return tr, find[event.Continuation](tr)
}

func TestAnApprovalRunsTheToolOrTellsTheModelThatItWasDenied(t *testing.T) {
	t.Parallel()
	tests := []struct {
		decision event.ActionStatus
		want     event.ToolStatus
	}{
		{event.ActionSuccess, event.ToolSuccess},
		{event.ActionDenied, event.ToolDenied},
	}
	for _, test := range tests {
		t.Run(string(test.decision), func(t *testing.T) {
			t.Parallel()
			tr, actions := paused(t, "demo", `/approve echo {"text":"careful"}`, "/say after")
			if len(actions) != 1 || actions[0].Kind != event.ContinueApproval || actions[0].Payload.Tool != "echo" {
				t.Fatalf("got actions %+v, want one approval of echo", actions)
			}
			if _, ran := tr.results()["echo"]; ran {
				t.Fatal("the tool ran before it was approved")
			}
			next := post(t, "demo", resolve(tr.ThreadID, event.ActionResult{ActionID: actions[0].ActionID, Status: test.decision}))
			if r := next.results()["echo"]; r.Status != test.want {
				t.Errorf("got result %+v, want %s", r, test.want)
			}
			if got := answerText(next.done(t)); got != "after" {
				t.Errorf("got %q, want the script to continue", got)
			}
		})
	}
}

func TestConfiguredToolNeedsApproval(t *testing.T) {
	t.Parallel()
	_, actions := paused(t, "demo", `/tool http_get {"url":"https://example.com/"}`)
	if len(actions) != 1 || actions[0].Kind != event.ContinueApproval || actions[0].Payload.ArgsHash == "" {
		t.Errorf("got %+v, want one approval bound to its arguments", actions)
	}
}

func TestAClientToolAndAnInputBringTheirResults(t *testing.T) {
	t.Parallel()
	tr, actions := paused(t, "demo", `/client-tool pick_file {"kind":"pdf"}`, "/ask Which page?", "/say thanks")
	if len(actions) != 1 || actions[0].Kind != event.ContinueTool || actions[0].Payload.Tool != "pick_file" {
		t.Fatalf("got %+v, want one client tool", actions)
	}
	empty := resolve(tr.ThreadID, event.ActionResult{ActionID: actions[0].ActionID, Status: event.ActionSuccess})
	refused := wantFault(t, call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream", empty), http.StatusBadRequest, apierr.InvalidMessageFormat)
	if !strings.Contains(refused.Message, `"result"`) {
		t.Errorf("a success without a result: got %q, want the member that is missing", refused.Message)
	}
	next := post(t, "demo", resolve(tr.ThreadID, success(actions[0].ActionID, `{"file":"a.pdf"}`)))
	question := only[event.Continuation](t, next)
	if question.Kind != event.ContinueInput || question.Payload.Question != "Which page?" {
		t.Fatalf("got %+v, want the question", question)
	}
	last := post(t, "demo", resolve(tr.ThreadID, success(question.ActionID, `"seven"`)))
	if got := answerText(last.done(t)); got != "thanks" {
		t.Errorf("got %q, want thanks", got)
	}
}

func TestSeveralOpenActionsAreResolvedTogetherOrOneByOne(t *testing.T) {
	t.Parallel()
	script := []string{`/approve echo {"text":"one"}`, "/say end"}
	tr, first := paused(t, "demo", script...)
	next := post(t, "demo", resolve(tr.ThreadID, success(first[0].ActionID, "")))
	if answerText(next.done(t)) != "end" {
		t.Fatalf("got %s", next.shape())
	}
	two := `/tools http_get {"url":"https://a.example/"}; http_get {"url":"https://b.example/"}`
	tr, open := paused(t, "demo", two, "/say end")
	if len(open) != 2 {
		t.Fatalf("got %d actions, want 2", len(open))
	}
	deny := func(c event.Continuation) event.ActionResult {
		return event.ActionResult{ActionID: c.ActionID, Status: event.ActionDenied}
	}
	half := post(t, "demo", resolve(tr.ThreadID, deny(open[0])))
	still := only[event.Continuation](t, half)
	if still.ActionID != open[1].ActionID || half.done(t).FinishReason != event.FinishActionRequired {
		t.Fatalf("got %+v, want the second action to stay open", still)
	}
	if whole := post(t, "demo", resolve(tr.ThreadID, deny(open[1]))); answerText(whole.done(t)) != "end" {
		t.Errorf("got %s, want the script to continue", whole.shape())
	}
}

func TestActionsThatCannotBeResolvedAreRefused(t *testing.T) {
	t.Parallel()
	tr, actions := paused(t, "demo", "/ask What?", "/say ok")
	_, elsewhere := paused(t, "demo", "/ask What else?")
	forgotten, expired := paused(t, "forgetful", "/ask Too late?")
	post(t, "demo", resolve(tr.ThreadID, success(actions[0].ActionID, `"this"`)))
	<-time.After(time.Until(expired[0].ExpiresAt.Add(clockTolerance)))
	tests := []struct{ name, agent, thread, action string }{
		{"resolved twice", "demo", tr.ThreadID, actions[0].ActionID},
		{"unknown", "demo", tr.ThreadID, "act_unknown"},
		{"of another thread", "demo", tr.ThreadID, elsewhere[0].ActionID},
		{"expired", "forgetful", forgotten.ThreadID, expired[0].ActionID},
		{"no identifier", "demo", tr.ThreadID, "a.>"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			body := resolve(test.thread, success(test.action, `"x"`))
			response := call(t.Context(), t, http.MethodPost, path("/v1/agents/%s/stream", test.agent), body)
			code := apierr.InvalidActionID
			if strings.Contains(test.action, ".") {
				code = apierr.InvalidMessageFormat
			}
			wantFault(t, response, http.StatusBadRequest, code)
		})
	}
}

func TestOfTwoClientsThatResolveAtOnceOneWins(t *testing.T) {
	t.Parallel()
	for range 10 {
		tr, actions := paused(t, "demo", "/ask Who?", "/say ok")
		var wins, losses atomic.Int32
		var race sync.WaitGroup
		for _, who := range []string{`"ann"`, `"bob"`, `"cid"`, `"dan"`} {
			race.Go(func() {
				response := call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream",
					resolve(tr.ThreadID, success(actions[0].ActionID, who)))
				if response.StatusCode == http.StatusOK {
					wins.Add(1)
					readStream(t, response, -1)
					return
				}
				losses.Add(1)
				wantFault(t, response, http.StatusBadRequest, apierr.InvalidActionID)
			})
		}
		race.Wait()
		if wins.Load() != 1 || losses.Load() != 3 {
			t.Fatalf("%d won and %d lost, want 1 and 3", wins.Load(), losses.Load())
		}
	}
}

func TestANewMessageSupersedesOpenActions(t *testing.T) {
	t.Parallel()
	tr, actions := paused(t, "demo", "/ask Which?", "/say never")
	r := event.AgentRequest{ThreadID: tr.ThreadID, Messages: []event.InputMessage{event.UserText("/say moved on")}}
	if next := post(t, "demo", requestBody(r)); answerText(next.done(t)) != "moved on" {
		t.Fatalf("got %s", next.shape())
	}
	late := call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream", resolve(tr.ThreadID, success(actions[0].ActionID, `"x"`)))
	wantFault(t, late, http.StatusBadRequest, apierr.InvalidActionID)
}

// TestOpenActionsAreListedUntilTheyAreResolved compares the lists before and after each step of an approval.
func TestOpenActionsAreListedUntilTheyAreResolved(t *testing.T) {
	t.Parallel()
	tr, actions := paused(t, "demo", `/tool http_get {"url":"https://example.com/"}`)
	want := actions[0]
	mine := "/v1/actions?threadId=" + tr.ThreadID
	for _, list := range []string{mine, mine + "&agentId=demo"} {
		got := get[historyapi.ActionPage](t, list)
		if len(got.Actions) != 1 || got.NextCursor != "" {
			t.Fatalf("%s: got %+v, want the approval", list, got)
		}
		a := got.Actions[0]
		if a.ActionID != want.ActionID || a.Kind != event.ContinueApproval || a.ThreadID != tr.ThreadID || a.RequestID != tr.RequestID ||
			a.AgentID != "demo" || a.Payload.Tool != "http_get" || a.Payload.ArgsHash != want.Payload.ArgsHash || !a.ExpiresAt.Equal(want.ExpiresAt) {
			t.Errorf("%s: got %+v, want %+v", list, a, want)
		}
	}
	if got := get[historyapi.ActionPage](t, mine+"&agentId=helper"); len(got.Actions) != 0 {
		t.Errorf("another agent: got %+v, want none", got.Actions)
	}
	if !isListed(t, want.ActionID) {
		t.Error("the list of all threads lacks the approval")
	}
	thread := func() historyapi.Thread { return get[historyapi.Thread](t, "/v1/threads/"+tr.ThreadID) }
	if got := thread().OpenActions; len(got) != 1 || got[0].ActionID != want.ActionID || got[0].Kind != event.ContinueApproval {
		t.Errorf("the thread has the open actions %+v, want the approval", got)
	}
	post(t, "demo", resolve(tr.ThreadID, event.ActionResult{ActionID: want.ActionID, Status: event.ActionDenied}))
	if got := get[historyapi.ActionPage](t, mine); len(got.Actions) != 0 || isListed(t, want.ActionID) || len(thread().OpenActions) != 0 {
		t.Errorf("after its denial: got %+v, and of the thread %+v", got.Actions, thread().OpenActions)
	}
	forgotten, _ := paused(t, "forgetful", `/client-tool pick {}`)
	eventually(t, 10*time.Second, func() error { // the agent's actionTTL is a millisecond
		if got := get[historyapi.ActionPage](t, "/v1/actions?threadId="+forgotten.ThreadID); len(got.Actions) != 0 {
			return fmt.Errorf("after its expiry: got %+v, want no actions", got.Actions)
		}
		return nil
	})
	wantFault(t, call(t.Context(), t, http.MethodGet, "/v1/actions?threadId=thr_none", ""), http.StatusNotFound, apierr.ThreadNotFound)
	wantFault(t, call(t.Context(), t, http.MethodGet, "/v1/actions?cursor=x", ""), http.StatusBadRequest, apierr.InvalidMessageFormat)
}

// isListed reports whether an action is in the pages of the caller's open actions.
func isListed(t *testing.T, actionID string) bool {
	t.Helper()
	for cursor := ""; ; {
		page := get[historyapi.ActionPage](t, "/v1/actions?limit=1&cursor="+cursor)
		for _, a := range page.Actions {
			if a.ActionID == actionID {
				return true
			}
		}
		if cursor = page.NextCursor; cursor == "" {
			return false
		}
	}
}
