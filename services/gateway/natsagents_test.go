package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/prompts/promptstest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway"
)

// onBroker serves the agents to clients of the broker.
func onBroker(d *gateway.Deps) {
	d.Config.Gateway.Heartbeat = config.Duration(100 * time.Millisecond)
	d.Config.Gateway.NATSAgents = config.NATSAgents{Owner: "acme", Heartbeat: config.Duration(time.Second)}
}

// prompted sends a prompt and returns its request, as the response names it.
func (b *bench) prompted(c *promptstest.Client, body string, headers ...string) (s *promptstest.Stream, requestID, threadID string) {
	b.t.Helper()
	s = c.Prompt("agents.prompt.demo.acme.agentbus", body, headers...)
	if first := s.Next(); first.String() != "status ack" {
		b.t.Fatalf("got %s %s, want an ack", first, first.Body)
	}
	requestID, threadID = b.ids(s)
	return s, requestID, threadID
}

// ids reads the chunk that names a request.
func (b *bench) ids(s *promptstest.Stream) (requestID, threadID string) {
	b.t.Helper()
	_, chunk := s.Until("agentbus")
	var ids struct {
		RequestID string `json:"requestId"`
		Session   string `json:"session"`
	}
	if err := json.Unmarshal(chunk.Data, &ids); err != nil {
		b.t.Fatal(err)
	}
	return ids.RequestID, ids.Session
}

func approval(actionID string) event.Body {
	return event.Continuation{ActionID: actionID, Kind: event.ContinueApproval, ExpiresAt: time.Now().Add(time.Hour),
		Payload: event.ContinuationAction{ToolCallID: "call_1", Tool: "echo", Args: []byte(`{"a":1}`), ArgsHash: strings.Repeat("a", 64)}}
}

func TestAgentsAreDiscoveredOnTheBroker(t *testing.T) {
	t.Parallel()
	b := start(t, onBroker)
	c := promptstest.Connect(t, b.nats.URL())
	info := c.Discover("demo", 1)[0]
	if info.Name != "agents" || info.Metadata["owner"] != "acme" || info.Metadata["session"] != "agentbus" || info.Metadata["protocol_version"] != "0.3" {
		t.Errorf("got %+v", info)
	}
	for _, e := range info.Endpoints {
		if e.QueueGroup != "agents" || e.Subject != "agents."+e.Name+".demo.acme.agentbus" {
			t.Errorf("got the endpoint %+v", e)
		}
		if e.Name == "prompt" && (e.Metadata["max_payload"] != "524288B" || e.Metadata["attachments_ok"] != "true") {
			t.Errorf("got %v", e.Metadata)
		}
	}
	beat := c.Subscribe("agents.hb.demo.acme.agentbus")
	for _, body := range [][]byte{c.Request("agents.status.demo.acme.agentbus", ""), beat()} {
		var got map[string]any
		if err := json.Unmarshal(body, &got); err != nil || got["instance_id"] != info.ID || got["agent"] != "demo" || got["interval_s"] != 1.0 {
			t.Errorf("got the sign of life %s (%v)", body, err)
		}
	}
}

func TestAPromptIsARequest(t *testing.T) {
	t.Parallel()
	b := start(t, onBroker)
	c := promptstest.Connect(t, b.nats.URL())
	s, requestID, threadID := b.prompted(c, "hi", "Nats-Msg-Id", "one")
	w := b.claim(requestID)
	b.emit(w, metadata(), delta("he"), delta("llo"))
	if again, same, _ := b.prompted(c, "hi", "Nats-Msg-Id", "one"); same != requestID {
		t.Errorf("the same message: got %s, want %s", same, requestID)
	} else {
		again.Leave()
	}
	b.emit(w, done())
	if text, _ := s.Until("end"); text != "hello" {
		t.Errorf("got %q, want hello", text)
	}
	next, second, sameThread := b.prompted(c, `{"prompt":"more","session":"`+threadID+`","future":1}`)
	if sameThread != threadID {
		t.Errorf("got the session %s, want %s", sameThread, threadID)
	}
	b.run(second, metadata(), delta("x"), event.Error{Code: "agent_error", Message: "it broke"})
	text, failed := next.Until("error")
	if text != "x" || failed.Header.Get("Nats-Service-Error-Code") != "500" || failed.Header.Get("Nats-Service-Error") != "it broke" ||
		!strings.Contains(string(failed.Body), `"code":"agent_error"`) || !next.Next().IsEnd() {
		t.Errorf("got %q, %v %s", text, failed.Header, failed.Body)
	}
}

func TestPromptsThatAreRefused(t *testing.T) {
	t.Parallel()
	b := start(t, onBroker)
	c := promptstest.Connect(t, b.nats.URL())
	c.Discover("demo", 1)
	s, running, threadID := b.prompted(c, "hi")
	b.emit(b.claim(running), metadata())
	for body, want := range map[string]string{
		"": "400", "{": "400", `{"prompt":""}`: "400", `{"prompt":7}`: "400", "\xff": "400", "a\x00b": "400", `{"prompt":"a","prompt":"b"}`: "400",
		`{"prompt":"a","attachments":[{"filename":"../a","content":"YQ=="}]}`: "400",
		`{"prompt":"a","attachments":[{"filename":"a.txt","content":"YQ"}]}`:  "400",
		`{"prompt":"a","session":"no.t"}`:                                     "400",
		`{"prompt":"a","session":"` + threadID + `"}`:                         "409",
		strings.Repeat("x", 600<<10):                                          "400",
		`{"a":` + strings.Repeat("[", 100_000):                                "400",
	} {
		refused := c.Prompt("agents.prompt.demo.acme.agentbus", body)
		if first := refused.Next(); first.String() != "error "+want || !strings.Contains(string(first.Body), `"code"`) {
			t.Errorf("%.60q: got %s %.200s, want %s", body, first, first.Body, want)
		}
		if end := refused.Next(); !end.IsEnd() {
			t.Errorf("%.60q: got %s after the error, want the end", body, end)
		}
	}
	heard := c.Subscribe("agentbus.request.default.demo.forged")
	c.Publish("agents.prompt.demo.acme.agentbus", "agentbus.request.default.demo.forged", "hi")
	c.Publish("agents.status.demo.acme.agentbus", "agentbus.request.default.demo.forged", "")
	c.Request("agents.status.demo.acme.agentbus", "") // handled after the others
	c.Publish("agentbus.request.default.demo.forged", "_INBOX.none", "own")
	if got := heard(); string(got) != "own" {
		t.Errorf("a response went to a subject of agentbus: %s", got)
	}
	s.Leave()
	b.works()
}

func TestAnApprovalIsAQuery(t *testing.T) {
	t.Parallel()
	b := start(t, onBroker)
	c := promptstest.Connect(t, b.nats.URL())
	for answer, want := range map[string]event.ActionStatus{"yes": event.ActionSuccess, `{"prompt":"No."}`: event.ActionDenied} {
		s, requestID, threadID := b.prompted(c, "hi")
		action := "act_" + requestID
		b.run(requestID, input("hi"), metadata(), approval(action), actionRequired())
		_, query := s.Until("query")
		if !strings.Contains(string(query.Data), "echo") {
			t.Errorf("got the question %s", query.Data)
		}
		s.Answer(query, "perhaps")
		_, query = s.Until("query")
		s.Answer(query, answer)
		next, _ := b.ids(s)
		accepted, err := b.bus.Accepted(t.Context(), b.log(next))
		if err != nil || len(accepted.Request.Context.ActionResults) != 1 || accepted.Request.Context.ActionResults[0].Status != want || accepted.ThreadID != threadID {
			t.Errorf("%s: got %+v, %v, want %s", answer, accepted.Request.Context, err, want)
		}
		b.run(next, metadata(), delta("done"), done())
		if text, _ := s.Until("end"); text != "done" {
			t.Errorf("got %q", text)
		}
	}
}

func TestAnApprovalByAnotherClientContinuesTheResponse(t *testing.T) {
	t.Parallel()
	b := start(t, onBroker)
	c := promptstest.Connect(t, b.nats.URL())
	s, requestID, threadID := b.prompted(c, "hi")
	action := "act_" + requestID
	b.run(requestID, input("hi"), metadata(), approval(action), actionRequired())
	s.Until("query")
	next, _ := b.accepted(resolving(threadID, action))
	if followed, _ := b.ids(s); followed != next {
		t.Errorf("got %s, want %s", followed, next)
	}
	b.run(next, metadata(), delta("done"), done())
	if text, _ := s.Until("end"); text != "done" {
		t.Errorf("got %q", text)
	}
}

func TestAToolOfTheClientIsAnError(t *testing.T) {
	t.Parallel()
	b := start(t, onBroker)
	c := promptstest.Connect(t, b.nats.URL())
	s, requestID, threadID := b.prompted(c, "hi")
	b.run(requestID, metadata(), event.Continuation{ActionID: "act_1", Kind: event.ContinueTool, Payload: event.ContinuationAction{Tool: "locate"}}, actionRequired())
	if _, failed := s.Until("error"); failed.String() != "error 409" || !strings.Contains(string(failed.Body), threadID) {
		t.Errorf("got %s %s", failed, failed.Body)
	}
}

func TestAClientThatLeavesTheBrokerAbortsWhereConfigured(t *testing.T) {
	t.Parallel()
	b := start(t, onBroker, func(d *gateway.Deps) {
		demo := d.Config.Agents["demo"]
		demo.OnDisconnect = config.OnDisconnectAbort
		d.Config.Agents["demo"] = demo
	})
	c := promptstest.Connect(t, b.nats.URL())
	s, requestID, _ := b.prompted(c, "hi")
	b.emit(b.claim(requestID), metadata())
	s.Leave()
	b.eventually("the request is aborted", func() bool {
		_, err := b.bus.Aborted(t.Context(), b.log(requestID))
		return err == nil
	})
}

func TestPromptsNeedAKeyUnlessConfigured(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys, onBroker)
	key, _ := b.key("acme", "alice", auth.ScopeRun, auth.ScopeRead)
	reader, _ := b.key("acme", "bob", auth.ScopeRead)
	c := promptstest.Connect(t, b.nats.URL())
	c.Discover("demo", 1)
	for _, header := range []string{"", "Bearer ak_wrong_key", "Bearer " + reader} {
		s := c.Prompt("agents.prompt.demo.acme.agentbus", "hi", "Authorization", header)
		if first := s.Next(); first.String() != "error 401" || !s.Next().IsEnd() {
			t.Errorf("%q: got %s %s, want 401", header, first, first.Body)
		}
	}
	_, requestID, _ := b.prompted(c, "hi", "Authorization", "Bearer "+key)
	if a, err := b.bus.Accepted(t.Context(), bus.LogID{Tenant: "acme", RequestID: requestID}); err != nil || a.Owner != "alice" {
		t.Errorf("got %+v, %v, want a request of alice", a, err)
	}
	if a := b.get("/v1/requests/"+requestID, "Authorization", "Bearer "+reader); a.status != http.StatusForbidden {
		t.Errorf("another user: got %d", a.status)
	}
	open := start(t, withKeys, onBroker, func(d *gateway.Deps) {
		d.Config.Gateway.NATSAgents.Tenant, d.Config.Gateway.NATSAgents.Subject = "acme", "broker"
	})
	_, requestID, _ = open.prompted(promptstest.Connect(t, open.nats.URL()), "hi")
	if a, err := open.bus.Accepted(t.Context(), bus.LogID{Tenant: "acme", RequestID: requestID}); err != nil || a.Owner != "broker" {
		t.Errorf("got %+v, %v, want a request of the configured principal", a, err)
	}
}

func TestDrainEndsPrompts(t *testing.T) {
	t.Parallel()
	b := start(t, onBroker)
	c := promptstest.Connect(t, b.nats.URL())
	s, requestID, _ := b.prompted(c, "hi")
	b.emit(b.claim(requestID), metadata())
	b.gateway.Drain()
	if _, failed := s.Until("error"); failed.String() != "error 500" || !strings.Contains(string(failed.Body), `"retryable":true`) {
		t.Errorf("got %s %s", failed, failed.Body)
	}
}
