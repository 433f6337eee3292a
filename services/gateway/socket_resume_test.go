package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/coder/websocket"
)

// asked begins a request on a session, and its log.
func (b *bench) asked(id, text string) *bus.Writer {
	b.t.Helper()
	requestID, _ := b.accepted(strings.Replace(onThread(id), "more", text, 1))
	w := b.claim(requestID)
	b.emit(w, opening(id, text)...)
	return w
}

// said is a whole run on a session.
func (b *bench) said(id, text string) {
	b.t.Helper()
	b.emit(b.asked(id, text), reply(id, text)...)
}

// ends reads events up to the end of so many runs.
func (p *peer) ends(n int) []message {
	p.t.Helper()
	var all []message
	for range n {
		all = append(all, p.until("agent_run_end")...)
	}
	return all
}

func TestSocketResumesAfterEachCursor(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"", "?format=protocol"} {
		b := start(t)
		id := b.session()
		b.said(id, "one")
		b.said(id, "two")
		p := b.dial(format)
		if m := p.join(id, "0"); m.Data["cursor"] != "0" || m.Data["reset"] != nil {
			t.Errorf("got %+v", m)
		}
		whole := p.ends(2)
		for i, e := range whole {
			if e.Cursor == "" {
				continue
			}
			again := b.dial(format)
			if m := again.join(id, e.Cursor); m.Data["cursor"] != e.Cursor || m.Data["reset"] != nil {
				t.Fatalf("after %s: got %+v", e.Cursor, m)
			}
			for _, want := range whole[i+1:] {
				if got := again.readAnswer(); got.ID != want.ID || got.Type != want.Type || got.Cursor != want.Cursor {
					t.Fatalf("after %s: got %+v, want %+v", e.Cursor, got, want)
				}
			}
		}
		last := b.dial(format)
		last.join(id, whole[len(whole)-1].Cursor)
		b.said(id, "three")
		if got := last.ends(1); got[0].Type != "user_message" {
			t.Errorf("after the last event: got %s", kinds(got))
		}
	}
}

// TestSocketWithoutEventsResumesWithoutLoss leaves before anything has come, and comes back when all is over.
func TestSocketWithoutEventsResumesWithoutLoss(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.session()
	b.said(id, "past")
	p := b.dial("")
	idle, _ := p.join(id, "").Data["cursor"].(string)
	w := b.asked(id, "present")
	running, _ := b.dial("").join(id, "").Data["cursor"].(string)
	b.emit(w, reply(id, "present")...)
	b.said(id, "future")
	for what, cursor := range map[string]string{"from an idle session": idle, "from one that ran": running} {
		back := b.dial("")
		if m := back.join(id, cursor); m.Data["reset"] != nil {
			t.Errorf("%s: got %+v", what, m)
		}
		all := back.ends(2)
		if got := strings.Count(kinds(all), "user_message"); got != 2 || all[0].Type != "user_message" {
			t.Errorf("%s: got %s", what, kinds(all))
		}
	}
	if m := b.dial("").join(id, "zzzz-0.1"); m.Data["reset"] != true || m.Data["cursor"] != "0" {
		t.Errorf("a cursor of another stream: got %+v", m)
	}
}

// TestSocketOfADrainingGatewayResumesAtAnother restarts the gateway in the middle of a run.
func TestSocketOfADrainingGatewayResumesAtAnother(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.session()
	p := b.dial("")
	p.join(id, "")
	w := b.asked(id, "hi")
	seen := p.until("agent_run_start")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.gateway.Drain()
	}()
	if bye := p.closed(); bye.Code != websocket.StatusServiceRestart {
		t.Errorf("got %v, want 1012", bye)
	}
	<-ended // it has waited for the socket, and for nothing else
	if _, a := b.tryDial("", nil); a.status != http.StatusServiceUnavailable {
		t.Errorf("a gateway that drains: got %+v", a)
	}
	b.emit(w, reply(id, "hello")...)
	next := b.otherGateway()
	back := next.dial("")
	back.join(id, seen[len(seen)-1].Cursor)
	seen = append(seen, back.ends(1)...)
	whole := next.dial("")
	whole.join(id, "0")
	if want := whole.ends(1); ids(seen) != ids(want) {
		t.Errorf("got %s, want %s", ids(seen), ids(want))
	}
}

// TestSocketLeavesAndIsLeft joins several sessions, leaves one, and has one deleted.
func TestSocketLeavesAndIsLeft(t *testing.T) {
	t.Parallel()
	b := start(t)
	one, two := b.session(), b.session()
	p := b.dial("")
	p.join(one, "")
	p.join(two, "")
	b.said(one, "x")
	for _, m := range p.ends(1) {
		if m.SessionID != one {
			t.Errorf("got %+v", m)
		}
	}
	p.say(`{"type":"leave_session","sessionId":"` + one + `"}`)
	if m := p.readAnswer(); m.Type != "left" || m.SessionID != one || m.Data["reason"] != "asked" {
		t.Errorf("got %+v", m)
	}
	b.said(one, "unheard")
	b.said(two, "y")
	for _, m := range p.ends(1) {
		if m.SessionID != two {
			t.Errorf("of a session that was left: got %+v", m)
		}
	}
	p.join(two, "0") // who has joined begins anew
	if all := p.ends(1); !strings.Contains(kinds(all), "user_message") {
		t.Errorf("got %s", kinds(all))
	}
	if a := b.do(b.request(http.MethodDelete, "/v1/threads/"+two, "")); a.status >= 300 {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	if m := p.readAnswer(); m.Type != "left" || m.SessionID != two || m.Data["reason"] != "deleted" {
		t.Errorf("got %+v", m)
	}
	p.say(`{"type":"join_session","sessionId":"` + two + `"}`)
	if m := p.readAnswer(); m.Type != "error" || m.Data["error"] != "Session not found" {
		t.Errorf("got %+v", m)
	}
}

func TestSocketQueriesAreAcceptedOnce(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.session()
	p := b.dial("")
	query := `{"type":"send_query","sessionId":"` + id + `","query":[{"type":"text","text":"hi"}],"idempotencyKey":"k1"}`
	p.say(query)
	first := p.readAnswer()
	p.say(query)
	second := p.readAnswer()
	if first.Type != "query_accepted" || first.Data["replayed"] != nil || second.Data["replayed"] != true || first.Data["requestId"] != second.Data["requestId"] {
		t.Errorf("got %+v and %+v", first, second)
	}
	p.say(strings.Replace(query, "hi", "ho", 1))
	if m := p.readAnswer(); m.Data["code"] != "idempotency_mismatch" {
		t.Errorf("another query under the same key: got %+v", m)
	}
	p.say(strings.Replace(query, "k1", "k2", 1))
	if m := p.readAnswer(); m.Data["code"] != "thread_busy" || m.Data["recoverable"] != true || m.Data["runningRequestId"] != first.Data["requestId"] || m.Data["inReplyTo"] != "send_query" {
		t.Errorf("while another runs: got %+v", m)
	}
	p.say(strings.Replace(query, "k1", strings.Repeat("k", 300), 1))
	if m := p.readAnswer(); m.Data["code"] != "invalid_message_format" {
		t.Errorf("a key that is too long: got %+v", m)
	}
}

// TestSocketSlowReaderReceivesAll lets a client read nothing while a long answer comes, and another one read it at once.
func TestSocketSlowReaderReceivesAll(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.session()
	slow, quick := b.dial(""), b.dial("")
	slow.conn.SetReadLimit(1 << 20)
	quick.conn.SetReadLimit(1 << 20)
	slow.join(id, "")
	quick.join(id, "")
	w := b.asked(id, "hi")
	block := func(stage event.Stage) event.Block { return event.Block{BlockID: "b0", Stage: stage} }
	b.emit(w, event.Text{Block: block(event.StageStart)})
	const parts = 200
	chunk := strings.Repeat("x", 10<<10)
	for range parts {
		b.emit(w, event.Text{Block: block(event.StageDelta), Delta: chunk})
	}
	b.emit(w, event.Done{MessageID: "m", ThreadID: id, Content: []event.Content{}, FinishReason: event.FinishStop})
	want, got := quick.ends(1), slow.ends(1)
	if ids(got) != ids(want) || len(got) < parts {
		t.Errorf("got %d events, want %d", len(got), len(want))
	}
}

// TestSocketThatReadsNothingIsClosed lets a client read nothing until the gateway gives up: then its place is free.
func TestSocketThatReadsNothingIsClosed(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		d.Config.Gateway.Limits.SendTime, d.Config.Gateway.Limits.Streams = config.Duration(300*time.Millisecond), 1
	})
	id := b.session()
	deaf := b.dial("")
	deaf.join(id, "")
	w := b.asked(id, "hi")
	b.emit(w, event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageStart}})
	chunk := strings.Repeat("x", 200<<10)
	for range 100 {
		b.emit(w, event.Text{Block: event.Block{BlockID: "b0", Stage: event.StageDelta}, Delta: chunk})
	}
	b.emit(w, done())
	b.eventually("the place is free", func() bool {
		p, _ := b.tryDial("", nil)
		return p != nil
	})
	deaf.conn.SetReadLimit(1 << 20)
	for {
		text, err := deaf.raw()
		if err != nil {
			return
		}
		if strings.Contains(string(text), `"agent_run_end"`) {
			t.Fatal("who took nothing has got all of it")
		}
	}
}

func TestSocketThatIsIdleIsClosed(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.Limits.IdleTime = config.Duration(300 * time.Millisecond) })
	member, left, silent := b.dial(""), b.dial(""), b.dial("")
	id := b.session()
	member.join(id, "")
	left.join(id, "")
	left.say(`{"type":"leave_session","sessionId":"` + id + `"}`)
	for who, p := range map[string]*peer{"no message": silent, "session left": left} {
		if bye := p.closed(); bye.Code != websocket.StatusGoingAway || !strings.Contains(bye.Reason, "no message was received") {
			t.Errorf("%s: got %+v, want 1001", who, bye)
		}
	}
	member.say(`{"type":"ping"}`)
	if m := member.readAnswer(); m.Type != "pong" {
		t.Errorf("who has joined may be silent: got %+v", m)
	}
}

// TestSocketHoldsAThousand holds 1,000 connections to one gateway, all of which see the same run.
func TestSocketHoldsAThousand(t *testing.T) {
	t.Parallel()
	const many = 1000
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.Limits.Streams = many })
	id := b.session()
	peers := make([]*peer, many)
	for i := range peers {
		peers[i] = b.dial("")
		peers[i].join(id, "")
	}
	if _, a := b.tryDial("", nil); a.status != http.StatusTooManyRequests {
		t.Errorf("one more than a principal may have: got %+v", a)
	}
	b.said(id, "hi")
	want := ids(peers[0].ends(1))
	if n := len(slices.Compact(strings.Fields(want))); n < 5 {
		t.Fatalf("got %d events", n)
	}
	for i, p := range peers[1:] {
		if got := ids(p.ends(1)); got != want {
			t.Fatalf("connection %d: got %s, want %s", i+1, got, want)
		}
	}
}

// otherGateway returns another gateway on the same bus.
func (b *bench) otherGateway() *bench {
	b.t.Helper()
	return startOn(b.t, b.nats, b.archive)
}
