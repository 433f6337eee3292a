package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestAProgramRunsItsToolsAndResumesItsSessionInTheNextRequest(t *testing.T) {
	t.Parallel()
	first := postAll(t, "program", prompt("the first question"))
	d := first.done(t)
	if got := answerText(d); strings.TrimSpace(got) != "fresh: the first question" {
		t.Errorf("got %q", got)
	}
	if u := d.Usage; u.InputTokens != 12 || u.OutputTokens != 5 || u.CostUSD != 0.75 {
		t.Errorf("got usage %+v, want that of both turns", u)
	}
	checkOwnTool(t, first)
	next := postAll(t, "program", say(first.ThreadID, "the second one"))
	if got := answerText(next.done(t)); strings.TrimSpace(got) != "resumed: the second one" {
		t.Errorf("got %q, want the session to be resumed with the new message alone", got)
	}
	if again := resume(t, first.RequestID, ""); answerText(again.done(t)) != answerText(d) {
		t.Errorf("who reads the log later gets %q", answerText(again.done(t)))
	}
	messages := readAll(t, call(t.Context(), t, http.MethodGet, "/v1/threads/"+first.ThreadID+"/messages", ""))
	if !strings.Contains(messages, "fresh: the first question") || !strings.Contains(messages, "resumed: the second one") {
		t.Errorf("history has %s", messages)
	}
}

// checkOwnTool checks the call of a tool that the program has run by itself, and its result.
func checkOwnTool(t *testing.T, tr transcript) {
	t.Helper()
	called := false
	for _, e := range tr.Events {
		c, ok := e.Body.(event.ToolCall)
		if !ok || c.Stage != event.StageStop {
			continue
		}
		called = true
		if want := json.RawMessage(`{"command":"echo hi"}`); !c.ByAgent || c.Tool != "bash" || string(c.Args) != string(want) {
			t.Errorf("got the call %+v", c)
		}
	}
	if got := tr.results()["bash"]; !called || got.Status != event.ToolSuccess || got.Summary != "echo hi" {
		t.Errorf("called %t, got %+v", called, got)
	}
}
