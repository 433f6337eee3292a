package e2e

import (
	"net/http"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/go-json-experiment/json"
)

// background starts a request without streaming it, on any route that does.
func background(t *testing.T, path, body string) client.Started {
	t.Helper()
	response := call(t.Context(), t, http.MethodPost, path, body)
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("POST %s answers %s: %s", path, response.Status, readAll(t, response))
	}
	var answer client.Started
	if err := json.UnmarshalRead(response.Body, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Status != historyapi.StatusQueued || response.Header.Get("Location") != "/v1/requests/"+answer.RequestID {
		t.Errorf("POST %s answers %+v at %q", path, answer, response.Header.Get("Location"))
	}
	return answer
}

func status(t *testing.T, requestID string) historyapi.Status {
	t.Helper()
	return get[historyapi.Request](t, path("/v1/requests/%s", requestID)).Status
}

// endsAborted waits until a request has been aborted.
func endsAborted(t *testing.T, requestID string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for got := status(t, requestID); got != historyapi.StatusAborted; got = status(t, requestID) {
		if time.Now().After(deadline) {
			t.Fatalf("request %s is %s, want %s", requestID, got, historyapi.StatusAborted)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func abort(t *testing.T, requestID string) {
	t.Helper()
	response := call(t.Context(), t, http.MethodPost, path("/v1/requests/%s/abort", requestID), "")
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("abort answers %s: %s", response.Status, readAll(t, response))
	}
}

// inOrder checks that each request began after the one before it had ended.
func inOrder(t *testing.T, requests ...transcript) {
	t.Helper()
	for i, next := range requests[1:] {
		before := requests[i].Events
		if end, begin := before[len(before)-1], next.Events[0]; begin.Time.Before(end.Time) {
			t.Errorf("request %s began at %v, before %s ended at %v", begin.RequestID, begin.Time, end.RequestID, end.Time)
		}
	}
}

func TestRequestsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	const requests = "/v1/agents/queueing/requests"
	first := started(t, "queueing", prompt("/stream 10000 50"), 2)
	second := background(t, requests, say(first.ThreadID, "/say two"))
	third := background(t, requests, say(first.ThreadID, "/say three"))
	refusal := wantFault(t, call(t.Context(), t, http.MethodPost, requests, say(first.ThreadID, "/say four")), http.StatusConflict, apierr.ThreadBusy)
	if refusal.RunningRequestID != first.RequestID || !refusal.Retryable {
		t.Errorf("the refusal is %+v, want one that names %s", refusal, first.RequestID)
	}
	for _, waiting := range []client.Started{second, third} {
		if s := status(t, waiting.RequestID); s != historyapi.StatusQueued {
			t.Errorf("a request that waits is %s", s)
		}
	}
	abort(t, first.RequestID)
	told := []transcript{resume(t, first.RequestID, ""), resume(t, second.RequestID, ""), resume(t, third.RequestID, "")}
	if two, three := answerText(told[1].done(t)), answerText(told[2].done(t)); two != "two" || three != "three" {
		t.Errorf("got %q and %q", two, three)
	}
	inOrder(t, told...)
}

func TestARequestThatWaitsMayBeAborted(t *testing.T) {
	t.Parallel()
	const requests = "/v1/agents/queueing/requests"
	first := started(t, "queueing", prompt("/stream 10000 50"), 2)
	second := background(t, requests, say(first.ThreadID, "/say two"))
	abort(t, second.RequestID)
	endsAborted(t, second.RequestID)
	if s := status(t, first.RequestID); s != historyapi.StatusRunning {
		t.Fatalf("the first request is %s", s)
	}
	third := background(t, requests, say(first.ThreadID, "/say three"))
	if s := status(t, third.RequestID); s != historyapi.StatusQueued {
		t.Errorf("a request that waits is %s", s)
	}
	abort(t, first.RequestID)
	told := resume(t, third.RequestID, "")
	if answerText(told.done(t)) != "three" {
		t.Errorf("got %s", told.shape())
	}
	inOrder(t, resume(t, first.RequestID, ""), told)
}

func TestAnInterruptStopsWhatRuns(t *testing.T) {
	t.Parallel()
	first := started(t, "interrupting", prompt("/stream 10000 50"), 2)
	waiting := background(t, path("/v1/requests/%s/follow-up", first.RequestID), prompt("/say never"))
	last := post(t, "interrupting", say(first.ThreadID, "/say at once"))
	if answerText(last.done(t)) != "at once" {
		t.Errorf("got %s", last.shape())
	}
	for _, requestID := range []string{first.RequestID, waiting.RequestID} {
		if end := only[event.Aborted](t, resume(t, requestID, "")); end.Reason != "interrupted" {
			t.Errorf("request %s ended with %+v", requestID, end)
		}
	}
	inOrder(t, resume(t, first.RequestID, ""), last)
}

func TestASteerIsReadBeforeTheEnd(t *testing.T) {
	t.Parallel()
	first := started(t, "demo", prompt("/say one", "/sleep 1s", "/tool clock {}", "/say never"), 2)
	response := call(t.Context(), t, http.MethodPost, path("/v1/requests/%s/steer", first.RequestID), prompt("/say other"))
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("steer answers %s: %s", response.Status, readAll(t, response))
	}
	var steer struct {
		SteerID string `json:"steerId"`
	}
	if err := json.UnmarshalRead(response.Body, &steer); err != nil {
		t.Fatal(err)
	}
	whole := readStream(t, call(t.Context(), t, http.MethodGet, path("/v1/requests/%s/stream?include=input", first.RequestID), ""), -1)
	inputs := find[event.Input](whole)
	if len(inputs) != 2 || inputs[0].SteerID != "" || inputs[1].SteerID != steer.SteerID || inputs[1].Messages[0].Content.Text() != "/say other" {
		t.Errorf("got inputs %+v, want the prompt and steer %s", inputs, steer.SteerID)
	}
	if got := answerText(whole.done(t)); got != "one|other" {
		t.Errorf("got the answer %q", got)
	}
	messages := get[historyapi.MessagePage](t, path("/v1/threads/%s/messages", first.ThreadID)).Messages
	if len(messages) != 3 || messages[1].Input.Text() != "/say other" || messages[2].Role != "assistant" {
		t.Errorf("the thread has %+v", messages)
	}
	wantFault(t, call(t.Context(), t, http.MethodPost, path("/v1/requests/%s/steer", first.RequestID), prompt("/say late")), http.StatusConflict, apierr.RequestFinished)
}

// The agent demo rejects a second request; a follow-up waits there all the same.
func TestAFollowUpRunsAfterwards(t *testing.T) {
	t.Parallel()
	first := started(t, "demo", prompt("/say one", "/sleep 1s"), 2)
	second := background(t, path("/v1/requests/%s/follow-up", first.RequestID), prompt("/say two"))
	if second.ThreadID != first.ThreadID || second.AgentID != "demo" {
		t.Errorf("got %+v, want one on thread %s", second, first.ThreadID)
	}
	told := resume(t, second.RequestID, "")
	if answerText(told.done(t)) != "two" {
		t.Errorf("got %s", told.shape())
	}
	inOrder(t, resume(t, first.RequestID, ""), told)
	third := background(t, path("/v1/requests/%s/follow-up", first.RequestID), prompt("/say three"))
	if answerText(resume(t, third.RequestID, "").done(t)) != "three" {
		t.Error("a follow-up of a request that has ended does not run")
	}
}
