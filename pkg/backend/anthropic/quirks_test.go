package anthropic_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/event"
)

// exchange is a server that keeps the bodies and beta headers of its requests, and refuses those for which refuse returns a
// reason.
type exchange struct {
	bodies, betas []string
	refuse        func(body string) string
	answer        func(w http.ResponseWriter, n int)
}

func (e *exchange) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // an unread body fails the test
	e.bodies, e.betas = append(e.bodies, string(body)), append(e.betas, r.Header.Get("Anthropic-Beta"))
	if reason := e.refuse(string(body)); reason != "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, problem("invalid_request_error", reason))
		return
	}
	if e.answer != nil {
		e.answer(w, len(e.bodies))
		return
	}
	stream(w, begin, text("ok"), end)
}

func refuseNothing(string) string { return "" }

func TestARefusedWayToThinkIsSwitchedOnce(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, model, refused, reason, then string }{
		{"a budget", "opaque-deployment", `"enabled"`, `"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive"`, `"adaptive"`},
		{"adaptive thinking", "claude-future-9", `"adaptive"`, "adaptive thinking is not supported on this model", `"enabled"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := exchange{refuse: func(body string) string {
				if strings.Contains(body, tt.refused) {
					return tt.reason
				}
				return ""
			}}
			b := open(t, e.serve)
			turn := say("hi")
			turn.Model, turn.Thinking = tt.model, 2000
			for range 2 {
				if _, err := backendtest.Ask(t.Context(), b, turn); err != nil {
					t.Fatal(err)
				}
			}
			if len(e.bodies) != 3 || !strings.Contains(e.bodies[1], tt.then) || !strings.Contains(e.bodies[2], tt.then) {
				t.Errorf("got requests %q, want 3, the last two with %s", e.bodies, tt.then)
			}
		})
	}
}

func TestThinkingOfAnotherConversationIsLeftOut(t *testing.T) {
	t.Parallel()
	e := exchange{refuse: func(body string) string {
		if strings.Contains(body, "sig-1") {
			return "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation."
		}
		return ""
	}}
	turn := say("hi")
	turn.Model = "claude-opus-5-5"
	turn.Messages = append(turn.Messages, said(backend.Thinking{Text: "hm", Signature: "sig-1"}, backend.Text{Text: "sunny"}), user(backend.Text{Text: "and?"}))
	answer, err := backendtest.Ask(t.Context(), open(t, e.serve), turn)
	if err != nil || answer.Text != "ok" {
		t.Fatalf("got %q, %v", answer.Text, err)
	}
	if len(e.bodies) != 2 || !strings.Contains(e.bodies[0], "drop_block") || e.betas[0] != "thinking-binding-controls-2026-08-01" {
		t.Errorf("got requests %q with betas %q", e.bodies, e.betas)
	}
}

func TestAServerWithoutBlockBindingGetsNone(t *testing.T) {
	t.Parallel()
	e := exchange{refuse: func(body string) string {
		if strings.Contains(body, "block_binding") {
			return "thinking.adaptive.block_binding: Extra inputs are not permitted"
		}
		return ""
	}}
	b := open(t, e.serve)
	turn := say("hi")
	turn.Model = "claude-opus-5-5"
	for range 2 {
		if _, err := backendtest.Ask(t.Context(), b, turn); err != nil {
			t.Fatal(err)
		}
	}
	if len(e.bodies) != 3 || e.betas[2] != "" {
		t.Errorf("got %d requests, the last with beta %q, want 3 and none", len(e.bodies), e.betas[2])
	}
}

const pause = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
	"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"pause_turn\"},\"usage\":{\"output_tokens\":5}}\n\n" +
	"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"

func TestAPausedAnswerGoesBackAndContinues(t *testing.T) {
	t.Parallel()
	e := exchange{refuse: refuseNothing, answer: func(w http.ResponseWriter, n int) {
		if n == 1 {
			stream(w, begin, text("It is "), pause)
			return
		}
		stream(w, begin, text("sunny"), end)
	}}
	answer, err := backendtest.Ask(t.Context(), open(t, e.serve), say("hi"))
	if err != nil || answer.Text != "It is sunny" || answer.Outcome.Finish != event.FinishStop {
		t.Fatalf("got %q, %q, %v", answer.Text, answer.Outcome.Finish, err)
	}
	if got := answer.Outcome.Usage; got.InputTokens != 18 || got.OutputTokens != 7 {
		t.Errorf("got usage %+v, want that of both requests", got)
	}
	if !strings.Contains(e.bodies[1], `{"content":[{"text":"It is ","type":"text"}],"role":"assistant"}`) {
		t.Errorf("got the second request %s, want the paused answer in it", e.bodies[1])
	}
}

func TestEndlessPausesAreAnError(t *testing.T) {
	t.Parallel()
	e := exchange{refuse: refuseNothing, answer: func(w http.ResponseWriter, _ int) { stream(w, begin, text("more "), pause) }}
	_, err := backendtest.Ask(t.Context(), open(t, e.serve), say("hi"))
	if err == nil || !strings.Contains(err.Error(), "paused its answer") || len(e.bodies) != 10 {
		t.Errorf("got %v after %d requests, want an error after 10", err, len(e.bodies))
	}
}
