package gateway_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
)

// peer is a client of the WebSocket.
type peer struct {
	t    testing.TB
	conn *websocket.Conn
}

// message is what a peer reads: an event or an answer.
type message struct {
	Type      string         `json:"type"`
	ID        string         `json:"id"`
	SessionID string         `json:"sessionId"`
	Cursor    string         `json:"cursor"`
	Status    string         `json:"status"` // of a flat agent_run_end
	Data      map[string]any `json:"data"`
}

// dial connects. The query begins with '?' if there is one; without one the events are flat.
func (b *bench) dial(query string, headers ...string) *peer {
	b.t.Helper()
	if query == "" {
		query = "?format=flat"
	}
	p, a := b.tryDial(query, nil, headers...)
	if p == nil {
		b.t.Fatalf("connect: %+v", a)
	}
	return p
}

// tryDial returns no peer when the handshake is refused.
func (b *bench) tryDial(query string, protocols []string, headers ...string) (*peer, answer) {
	b.t.Helper()
	return b.tryDialAt("/ws"+query, protocols, headers...)
}

func (b *bench) tryDialAt(path string, protocols []string, headers ...string) (*peer, answer) {
	b.t.Helper()
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	conn, resp, err := websocket.Dial(b.t.Context(), "ws"+strings.TrimPrefix(b.server.URL, "http")+path,
		&websocket.DialOptions{HTTPHeader: h, Subprotocols: protocols})
	if resp == nil {
		b.t.Fatalf("connect: %v", err)
	}
	if err == nil {
		b.t.Cleanup(func() { _ = conn.CloseNow() })
		return &peer{b.t, conn}, answer{status: resp.StatusCode, header: resp.Header}
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body) // the client keeps the beginning of it
	return nil, answer{resp.StatusCode, resp.Header, string(body), err}
}

func (p *peer) say(text string) {
	p.t.Helper()
	if err := p.conn.Write(p.t.Context(), websocket.MessageText, []byte(text)); err != nil {
		p.t.Fatal(err)
	}
}

// raw reads the next message, or the error at the end.
func (p *peer) raw() ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	_, text, err := p.conn.Read(ctx)
	return text, err
}

func (p *peer) readAnswer() message {
	p.t.Helper()
	text, err := p.raw()
	if err != nil {
		p.t.Fatal(err)
	}
	var m message
	if err := json.Unmarshal(text, &m); err != nil {
		p.t.Fatalf("%s: %v", text, err)
	}
	return m
}

// until reads up to a message of a type, and returns all of them.
func (p *peer) until(kind string) []message {
	p.t.Helper()
	var all []message
	for {
		m := p.readAnswer()
		all = append(all, m)
		if m.Type == kind {
			return all
		}
		if len(all) > 1000 {
			p.t.Fatalf("%s does not come", kind)
		}
	}
}

// join joins a session and returns the answer.
func (p *peer) join(sessionID, after string) message {
	p.t.Helper()
	p.say(`{"type":"join_session","sessionId":"` + sessionID + `","after":"` + after + `"}`)
	m := p.readAnswer()
	if m.Type != "joined" || m.SessionID != sessionID {
		p.t.Fatalf("got %+v, want to have joined %s", m, sessionID)
	}
	return m
}

// ask sends a query and returns the request that it began.
func (p *peer) ask(sessionID string) (requestID string) {
	p.t.Helper()
	p.say(`{"type":"send_query","sessionId":"` + sessionID + `","query":"hi"}`)
	m := p.readAnswer()
	if requestID, _ = m.Data["requestId"].(string); m.Type != "query_accepted" || requestID == "" {
		p.t.Fatalf("got %+v", m)
	}
	return requestID
}

// closed reads until the socket ends, and returns how.
func (p *peer) closed() websocket.CloseError {
	p.t.Helper()
	for {
		_, err := p.raw()
		if err == nil {
			continue
		}
		bye, ok := errors.AsType[websocket.CloseError](err)
		if !ok {
			p.t.Fatalf("the end has no code: %v", err)
		}
		return bye
	}
}

// session creates one.
func (b *bench) session(headers ...string) string {
	b.t.Helper()
	a := b.post("/api/v1/sessions/create", `{}`, headers...)
	var made struct {
		SessionID string `json:"sessionId"`
	}
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || made.SessionID == "" {
		b.t.Fatalf("got %d %s", a.status, a.body)
	}
	return made.SessionID
}

func opening(sessionID, question string) []event.Body {
	return []event.Body{
		event.Input{ThreadID: sessionID, AgentID: "demo", Messages: []event.InputMessage{event.UserText(question)}},
		event.Metadata{ThreadID: sessionID, AgentID: "demo", ProtocolVersion: event.Protocol},
	}
}

func reply(sessionID, text string) []event.Body {
	block := func(stage event.Stage) event.Block { return event.Block{BlockID: "b0", Stage: stage} }
	return []event.Body{
		event.Text{Block: block(event.StageStart)},
		event.Text{Block: block(event.StageDelta), Delta: text},
		event.Text{Block: block(event.StageStop), Text: text},
		event.Done{MessageID: "m", ThreadID: sessionID, Content: []event.Content{{Type: "text", Text: text}}, FinishReason: event.FinishStop},
	}
}

// kinds lists the types of messages.
func kinds(all []message) string {
	list := make([]string, len(all))
	for i, m := range all {
		list[i] = m.Type
	}
	return strings.Join(list, " ")
}

func ids(all []message) string {
	list := make([]string, len(all))
	for i, m := range all {
		list[i] = m.ID
	}
	return strings.Join(list, " ")
}

func TestSocketTwoClientsSeeTheSameEvents(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.session()
	one, two := b.dial(""), b.dial("")
	if m := one.join(id, ""); m.Data["state"] != "idle" || m.Data["cursor"] != b.bus.Incarnation()+"-0.start" {
		t.Errorf("got %+v", m)
	}
	two.join(id, "")
	requestID := one.ask(id)
	w := b.claim(requestID)
	b.emit(w, opening(id, "hi")...)
	seen := two.until("agent_run_start")
	late := b.dial("")
	if m := late.join(id, ""); m.Data["state"] != "executing" {
		t.Errorf("joined in the middle: got %+v", m)
	}
	b.emit(w, reply(id, "hello")...)
	seen = append(seen, two.until("agent_run_end")...)
	for name, p := range map[string]*peer{"who asked": one, "who joined in the middle": late} {
		if got := p.until("agent_run_end"); ids(got) != ids(seen) || kinds(got) != kinds(seen) {
			t.Errorf("%s: got %s %s, want %s %s", name, kinds(got), ids(got), kinds(seen), ids(seen))
		}
	}
	for _, m := range seen {
		if m.SessionID != id {
			t.Errorf("%+v is of no session", m)
		}
	}
	if got := kinds(seen); !strings.HasPrefix(got, "user_message agent_run_start assistant_streaming_message") {
		t.Errorf("got %s", got)
	}
}

func TestSocketAbort(t *testing.T) {
	t.Parallel()
	b := start(t)
	id := b.session()
	p := b.dial("")
	p.join(id, "")
	abort := `{"type":"abort_query","sessionId":"` + id + `"}`
	p.say(abort)
	if m := p.readAnswer(); m.Type != "abort_result" || m.Data["success"] != false {
		t.Errorf("where nothing runs: got %+v", m)
	}
	requestID := p.ask(id)
	w := b.claim(requestID)
	b.emit(w, opening(id, "hi")...)
	p.until("agent_run_start")
	p.say(abort)
	if m := p.readAnswer(); m.Type != "abort_result" || m.Data["success"] != true {
		t.Errorf("got %+v", m)
	}
	if _, err := b.bus.Aborted(t.Context(), b.log(requestID)); err != nil {
		t.Errorf("the wish is not on the bus: %v", err)
	}
	b.emit(w, event.Aborted{ThreadID: id, Reason: "x"})
	all := p.until("agent_run_end")
	if last := all[len(all)-1]; last.Status != "aborted" {
		t.Errorf("got %+v", last)
	}
}
