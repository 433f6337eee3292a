package browser

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
)

// everything is a run with a thought, texts, and a call with its result.
const everything = "/think let me see\n/say first words\n/tool calculator {\"expression\":\"6*7\"}\n/say last words"

// ask calls a route of Tarko's and decodes the answer.
func ask(t *testing.T, method, route string, body, answer any) {
	t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), method, gateway+"/api/v1"+route, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= http.StatusBadRequest {
		t.Fatalf("%s %s: %s %s (%v)", method, route, response.Status, said, err)
	}
	if err := json.Unmarshal(said, answer); err != nil {
		t.Fatalf("%s %s answers %s: %v", method, route, said, err)
	}
}

// session makes a session that has answered a query.
func session(t *testing.T, name, query string) string {
	t.Helper()
	var made struct {
		SessionID string `json:"sessionId"`
	}
	ask(t, http.MethodPost, "/sessions/create", map[string]any{"name": name}, &made)
	ask(t, http.MethodPost, "/sessions/query", map[string]any{"sessionId": made.SessionID, "query": query}, new(map[string]any))
	return made.SessionID
}

func TestFirstPageStartsSession(t *testing.T) {
	p := open(t, gateway+"/")
	p.shows("What shall the agent do?")
	p.sends(everything)
	id := p.session()
	p.shows("6*7", "first words", "Calculator", "last words", "42")
	p.until(`document.querySelector("[title='Stop generation']") === null`)
	var listed struct {
		Events []struct {
			Type string `json:"type"`
		} `json:"events"`
	}
	ask(t, http.MethodGet, "/sessions/events?sessionId="+id, nil, &listed)
	if n := len(listed.Events); n == 0 || listed.Events[n-1].Type != "agent_run_end" {
		t.Errorf("the log has %v", listed.Events)
	}
	p.sends("/say a second answer")
	p.answers("a second answer")
}

func TestSessionsAreListedAndOpened(t *testing.T) {
	name := "Sums of " + rand.Text() // a run of its own, however often the test runs
	id := session(t, name, everything)
	p := open(t, gateway+"/")
	p.click("[title='Expand sidebar']")
	p.clickText(name)
	if got := p.session(); got != id {
		t.Errorf("session %s is open, want %s", got, id)
	}
	p.shows("first words", "Calculator", "last words")
	again := open(t, gateway+"/"+id)
	again.shows("first words", "Calculator", "last words")
}

func TestARunIsStopped(t *testing.T) {
	id := session(t, "Long", "/say before")
	p := open(t, gateway+"/"+id)
	p.shows("before")
	p.settled()
	p.sends("/say it begins\n/stream 4000 20 8")
	p.shows("it begins 0")
	p.settled()
	p.click("[title='Stop generation']")
	p.until(`document.querySelector("[title='Stop generation']") === null`)
	if state := standing(t, id); state != "aborted" {
		t.Errorf("the button is gone, and the session is %q", state)
	}
	p.sends("/say it continues")
	p.answers("it continues")
}

// standing returns the state of a session.
func standing(t *testing.T, id string) string {
	t.Helper()
	var now struct {
		Status struct {
			State string `json:"state"`
		} `json:"status"`
	}
	ask(t, http.MethodGet, "/sessions/status?sessionId="+id, nil, &now)
	return now.Status.State
}

func TestWhatAModelWritesIsNoProgram(t *testing.T) {
	const attack = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`
	id := session(t, "Attack", "/say before "+attack+" behind\n/tool echo {\"text\":\""+strings.ReplaceAll(attack, `"`, `\"`)+"\"}\n/say done")
	p := open(t, gateway+"/"+id)
	p.shows("before", "done")
	if title := eval[string](p, "document.title"); title == "taken" {
		t.Error("a script of the model's has run")
	}
}

func TestASharedSessionIsPlayedWithoutAServer(t *testing.T) { // K2
	id := session(t, "Played", everything+"\n/say </script><script>document.title='taken'</script> is only text")
	var shared struct {
		Success bool   `json:"success"`
		HTML    string `json:"html"`
	}
	ask(t, http.MethodPost, "/sessions/share", map[string]any{"sessionId": id}, &shared)
	var asked atomic.Int64
	alone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/v1/sessions") {
			asked.Add(1)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, shared.HTML) // the browser says when it has not come
	}))
	defer alone.Close()
	p := open(t, alone.URL+"/")
	p.shows("6*7", "first words", "Calculator", "last words", "is only text")
	if title := eval[string](p, "document.title"); title == "taken" {
		t.Error("a text has become a script")
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the page has asked a server for its session %d times", n)
	}
}

// framed answers queries with a stream of which the first words come in a framing, and all else in one that every page takes.
// It counts the queries. All other requests are answered by the gateway.
func framed(t *testing.T, block func(id, data string) string) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	target, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	rest := httputil.NewSingleHostReverseProxy(target)
	queries := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/sessions/query/stream" {
			r.Header.Del("Origin") // it is another one than the gateway's
			r.Host = target.Host
			rest.ServeHTTP(w, r)
			return
		}
		queries.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		for i, event := range []struct {
			block  func(id, data string) string
			fields string
		}{
			{plain, `"type":"user_message","content":"asked"`},
			{plain, `"type":"agent_run_start","sessionId":"s","runOptions":{}`},
			{block, `"type":"assistant_message","content":"first words","finishReason":"stop","messageId":"m1"`},
			{plain, `"type":"assistant_message","content":"second words","finishReason":"stop","messageId":"m2"`},
			{plain, `"type":"agent_run_end","sessionId":"s","iterations":1,"elapsedMs":1,"status":"idle"`},
		} {
			data := fmt.Sprintf(`{"id":"%d","timestamp":%d,%s}`, i, time.Now().UnixMilli(), event.fields)
			_, _ = io.WriteString(w, event.block(strconv.Itoa(i), data)) // a page that has gone needs no answer
		}
	}))
	t.Cleanup(server.Close)
	return server, queries
}

// asks sends a query until the server has it: a page that is still opening its session forgets what is written meanwhile.
func (p *tab) asks(query string, queries *atomic.Int64) {
	p.t.Helper()
	before := queries.Load()
	for deadline := time.Now().Add(waitTimeout); queries.Load() == before; {
		if time.Now().After(deadline) {
			p.t.Fatalf("the page does not send %q; it shows\n%s", query, p.text())
		}
		p.sends(query)
		for again := time.Now().Add(5 * time.Second); queries.Load() == before && time.Now().Before(again); {
			<-time.After(50 * time.Millisecond)
		}
	}
}

func plain(_, data string) string { return "data: " + data + "\n\n" }

// TestFramings keeps the reason why the stream of a query is framed as it is: the page drops events whose block does not
// begin with their data.
func TestFramings(t *testing.T) { // C2
	for _, test := range []struct {
		name    string
		block   func(id, data string) string
		renders bool
	}{
		{"data alone", plain, true},
		{"data, then the id as a block of its own, as the gateway does", func(id, data string) string {
			return ": heartbeat\n\ndata: " + data + "\n\nid: " + id + "\n\n"
		}, true},
		{"an id before the data", func(id, data string) string { return "id: " + id + "\ndata: " + data + "\n\n" }, false},
		{"an id behind the data", func(id, data string) string { return "data: " + data + "\nid: " + id + "\n\n" }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			server, queries := framed(t, test.block)
			p := open(t, server.URL+"/"+session(t, "Framed", "/say before"))
			p.shows("before")
			p.settled()
			p.asks("one", queries)
			p.shows("second words")
			if got := strings.Contains(p.text(), "first words"); got != test.renders {
				t.Errorf("the page renders this framing: %t, want %t; see docs/tarko.md, Framing", got, test.renders)
			}
		})
	}
}
