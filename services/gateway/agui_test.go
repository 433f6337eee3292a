package gateway_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/go-json-experiment/json"
)

// aguiInput is a RunAgentInput with one message.
func aguiInput(threadID, runID, text string) string {
	return `{"threadId":"` + threadID + `","runId":"` + runID + `","messages":[{"id":"m-` + runID + `","role":"user","content":"` + text + `"}],` +
		`"tools":[],"context":[]}`
}

// aguiUntil reads events of AG-UI until one of a type, which it returns, with the types of all of them.
func aguiUntil(t *testing.T, r *sse.Reader, kind string) (last map[string]any, types []string) {
	t.Helper()
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatalf("%v after %v, want %s", err, types, kind)
		}
		last = nil
		if err := json.Unmarshal(e.Data, &last); err != nil {
			t.Fatal(err)
		}
		one, _ := last["type"].(string)
		if types = append(types, one); one == kind {
			return last, types
		}
	}
}

func text(stage event.Stage, part string) event.Body {
	b := event.Text{Block: event.Block{MessageID: "msg_1", BlockID: "b0", Stage: stage}}
	if stage == event.StageDelta {
		b.Delta = part
	} else {
		b.Text = part
	}
	return b
}

func TestAGUIConnectGivesTheStateAndTheRest(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	w := b.claim(requestID)
	b.emit(w, metadata(), text(event.StageStart, ""), text(event.StageDelta, "one "))
	response, reader := b.open(b.request(http.MethodPost, "/agui/demo/connect", `{"threadId":"`+threadID+`"}`))
	if got := response.Header.Get("Content-Type"); got != sse.ContentType {
		t.Errorf("got type %s", got)
	}
	first, _ := aguiUntil(t, reader, "RUN_STARTED")
	if first["runId"] != requestID || first["threadId"] != "t" {
		t.Errorf("got %v, want the run %s", first, requestID)
	}
	snapshot, _ := aguiUntil(t, reader, "MESSAGES_SNAPSHOT")
	messages, _ := snapshot["messages"].([]any)
	if len(messages) != 1 {
		t.Fatalf("got %v, want the message that is open", snapshot)
	}
	if m, _ := messages[0].(map[string]any); m["id"] != "msg_1-b0" || m["content"] != "one " {
		t.Errorf("got %v, want the text until now", m)
	}
	b.emit(w, text(event.StageDelta, "two"), text(event.StageStop, "one two"), done())
	last, types := aguiUntil(t, reader, "RUN_FINISHED")
	if got := strings.Join(types, " "); got != "TEXT_MESSAGE_START TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END RUN_FINISHED" {
		t.Errorf("got %s", got)
	}
	if outcome, _ := last["outcome"].(map[string]any); outcome["type"] != "success" {
		t.Errorf("got %v", last)
	}
}

func TestAGUIRunsAreFoundByTheirIDs(t *testing.T) {
	t.Parallel()
	b := start(t)
	var streams sync.WaitGroup
	t.Cleanup(streams.Wait)
	for i, runID := range []string{"first", "second"} {
		streams.Go(func() { b.do(b.request(http.MethodPost, "/agui/demo", aguiInput("thread-1", runID, "say "+runID))) })
		var requestID string
		b.eventually("the run is accepted", func() bool {
			r, err := b.bus.Thread(t.Context(), "default", "thread-1")
			requestID = r.RequestID
			return err == nil && r.Index == i
		})
		accepted, err := b.bus.Accepted(t.Context(), b.log(requestID))
		if err != nil {
			t.Fatal(err)
		}
		b.run(requestID, accepted.Input(), metadata(), text(event.StageStop, "answer to "+runID), done())
	}
	for runID, want := range map[string]string{"first": "answer to first", "second": "answer to second", "none": "answer to second"} {
		a := b.post("/agui/demo/connect", `{"threadId":"thread-1","runId":"`+runID+`"}`)
		if a.status != http.StatusOK || !strings.Contains(a.body, want) || strings.Count(a.body, "RUN_FINISHED") != 1 {
			t.Errorf("%s: got %d %s, want %q", runID, a.status, a.body, want)
		}
		if named := `"runId":"` + runID + `"`; (runID != "none") != strings.Contains(a.body, named) {
			t.Errorf("%s: got %s, want the id of the run that it shows", runID, a.body)
		}
	}
	for body, want := range map[string]apierr.Code{
		`{"threadId":"thread-1","runId":"first"}`: apierr.RequestFinished, `{"threadId":"thread-1"}`: apierr.RequestFinished,
		`{"threadId":"thread-1","runId":"none"}`: apierr.RequestNotFound, `{"threadId":"thread-2"}`: apierr.ThreadNotFound,
	} {
		if a := b.post("/agui/demo/cancel", body); a.failure(t).Code != want {
			t.Errorf("cancel %s: got %d %s, want %s", body, a.status, a.body, want)
		}
	}
}

func TestAGUICursors(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	b.run(requestID, metadata(), text(event.StageStart, ""), text(event.StageDelta, "one"), text(event.StageStop, "one"), done())
	connect := func(runID, cursor string) answer {
		return b.post("/agui/demo/connect", `{"threadId":"`+threadID+`","runId":"`+runID+`"}`, "Last-Event-ID", cursor)
	}
	incarnation := b.bus.Incarnation()
	for _, test := range []struct {
		runID, cursor string
		content       bool // is sent as an event; otherwise it is in the snapshot
	}{
		{requestID, incarnation + "-2", true}, {requestID, incarnation + "-3", false}, {requestID, incarnation + "-5", false},
		{requestID, "other-2", false}, {requestID, incarnation + "-99", false}, {"another", incarnation + "-2", false},
	} {
		a := connect(test.runID, test.cursor)
		if a.status != http.StatusOK || strings.Contains(a.body, "TEXT_MESSAGE_CONTENT") != test.content || !strings.Contains(a.body, "RUN_FINISHED") {
			t.Errorf("%s after %s: got %d %s, want the text as an event: %t", test.runID, test.cursor, a.status, a.body, test.content)
		}
	}
	for _, cursor := range []string{"x", "-1", incarnation + "-"} {
		if a := connect(requestID, cursor); a.status != http.StatusBadRequest || a.failure(t).Code != apierr.InvalidMessageFormat {
			t.Errorf("after %s: got %d %s, want 400", cursor, a.status, a.body)
		}
	}
}

func TestAGUIAgents(t *testing.T) {
	t.Parallel()
	b := start(t)
	requestID, threadID := b.accepted(hello)
	b.run(requestID, metadata(), done())
	for _, path := range []string{"/agui/none", "/agui/none/connect", "/agui/none/cancel"} {
		if a := b.post(path, aguiInput(threadID, "r", "hi")); a.status != http.StatusNotFound || a.failure(t).Code != apierr.AgentNotFound {
			t.Errorf("%s: got %d %s", path, a.status, a.body)
		}
	}
	if a := b.get("/agui/demo/info"); !strings.Contains(a.body, `"name":"demo"`) || !strings.Contains(a.body, `"clientProvided":true`) {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a := b.post("/agui/demo", `{"threadId":"`+threadID+`","runId":"r","messages":[]}`); a.failure(t).Code != apierr.InvalidMessageFormat {
		t.Errorf("nothing new: got %d %s", a.status, a.body)
	}
	resume := `{"threadId":"` + threadID + `","messages":[],"resume":[{"interruptId":"approval:act_1","status":"resolved","payload":true}]}`
	if a := b.post("/agui/demo", resume); a.failure(t).Code != apierr.InvalidActionID {
		t.Errorf("an action that does not wait: got %d %s", a.status, a.body)
	}
}
