package gateway_test

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// queryWith returns the body of a query with a picture.
func queryWith(sessionID string, picture []byte) string {
	return `{"sessionId":"` + sessionID + `","query":[{"type":"text","text":""},{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		base64.StdEncoding.EncodeToString(picture) + `"}}]}`
}

func TestAQueryMayHave20MiBByDefault(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(metadata(), done())
	id := b.session()
	shot := picture(t, 14<<20)
	asked := b.post("/api/v1/sessions/query/stream", queryWith(id, shot))
	accepted, err := b.bus.Accepted(t.Context(), b.log(asked.header.Get("X-Request-Id")))
	if err != nil {
		t.Fatalf("got %d %s, %v", asked.status, asked.body, err)
	}
	content := accepted.Request.Messages[0].Content
	if len(content) != 1 || content[0].Ref == nil || len(content[0].Data) > 0 {
		t.Fatalf("the record has %.200v, want a reference alone", content)
	}
	if data, err := b.bus.Object(t.Context(), accepted.Tenant, id, *content[0].Ref); err != nil || !bytes.Equal(data, shot) {
		t.Errorf("the object has %d bytes, %v, want the picture", len(data), err)
	}
	a := b.post("/api/v1/sessions/query/stream", queryWith(id, make([]byte, 16<<20)))
	if a.status != http.StatusRequestEntityTooLarge || !strings.HasPrefix(a.body, `{"error":"the body is larger than 20971520 bytes`) {
		t.Errorf("more than 20 MiB: got %d %s, want 413", a.status, a.body)
	}
}

// TestLargeBodiesTakeTurns sends bodies of 16 MiB that lack their last byte: the gateway reads three of them, and the
// others only when those have ended, so what it holds in memory has a bound.
func TestLargeBodiesTakeTurns(t *testing.T) {
	t.Parallel()
	const clients, size, turns = 6, 16 << 20, 3
	b := start(t)
	id := b.session()
	finish := make(chan struct{})
	var sent [clients]atomic.Int64
	var done sync.WaitGroup
	for i := range clients {
		body, w := io.Pipe()
		done.Go(func() {
			b.send16MiB(w, &sent[i], size, finish)
		})
		done.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.server.URL+"/api/v1/sessions/query?sessionId="+id, body)
			if err != nil {
				t.Error(err)
				return
			}
			r.ContentLength = size
			if a := b.do(r); a.status != http.StatusBadRequest {
				t.Errorf("got %d %.200s, want 400: the body is white space", a.status, a.body)
			}
		})
	}
	whole := func() (n int) {
		for i := range sent {
			if sent[i].Load() == size-1 {
				n++
			}
		}
		return n
	}
	b.eventually("three bodies are read", func() bool { return whole() >= turns })
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		if n := whole(); n > turns {
			t.Errorf("%d large bodies are read at the same time, want %d", n, turns)
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	close(finish)
	done.Wait()
}

// send16MiB writes white space and counts it. It writes the last byte after finish.
func (b *bench) send16MiB(w *io.PipeWriter, sent *atomic.Int64, size int64, finish <-chan struct{}) {
	blank := bytes.Repeat([]byte(" "), 64<<10)
	for left := size - 1; left > 0; {
		n, err := w.Write(blank[:min(left, int64(len(blank)))])
		if err != nil {
			return
		}
		left -= int64(n)
		sent.Add(int64(n))
	}
	<-finish
	_, _ = w.Write([]byte(" ")) // fails if the gateway has answered
	_ = w.Close()
}

func TestErrorsOfPathsWithoutARouteHaveTheShapeOfTheirNeighbours(t *testing.T) {
	t.Parallel()
	b := start(t)
	for _, test := range []struct {
		method, path string
		status       int
		shape        string
	}{
		{http.MethodGet, "/api/v1/nothing", 404, `{"error":"`},
		{http.MethodGet, "/api/v1/sessions/nothing/here", 404, `{"error":"`},
		{http.MethodPut, "/api/v1/sessions/create", 405, `{"error":"`},
		{http.MethodGet, "/v1/nothing", 404, `{"event":"error"`},
		{http.MethodGet, "/nothing/here", 404, `{"event":"error"`},
	} {
		if a := b.do(b.request(test.method, test.path, "")); a.status != test.status || !strings.HasPrefix(a.body, test.shape) {
			t.Errorf("%s %s: got %d %s, want %d %s…", test.method, test.path, a.status, a.body, test.status, test.shape)
		}
	}
}

func TestASocketSendsNestedEventsByDefault(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(input("hi"), metadata(), done())
	id := b.session()
	if a := b.post("/api/v1/sessions/query", `{"sessionId":"`+id+`","query":"hi"}`); a.status != http.StatusOK {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	for query, nested := range map[string]bool{"?": true, "?format=protocol": true, "?format=flat": false} {
		p := b.dial(query)
		p.say(`{"type":"join_session","sessionId":"` + id + `","after":"0"}`)
		var got message
		for got.Type != "user_message" {
			got = p.readAnswer()
		}
		if _, has := got.Data["content"]; has != nested {
			t.Errorf("%s: got %+v, want nested: %t", query, got, nested)
		}
	}
}
