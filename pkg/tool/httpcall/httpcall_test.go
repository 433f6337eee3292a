package httpcall_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/httpcall"
	"github.com/agentbus/agentbus/pkg/tool/tooltest"
)

const schema = `{
	"type": "object",
	"properties": {
		"id": {"type": "string", "maxLength": 100},
		"n": {"type": "number"},
		"tags": {"type": "array", "items": {"type": "string"}}
	},
	"additionalProperties": false
}`

// server answers with what it was asked.
func server(t *testing.T) *httptest.Server {
	t.Helper()
	shown := make(chan struct{}) // is closed by a request to /shown
	var once sync.Once
	mux := http.NewServeMux()
	mux.HandleFunc("/echo/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "no user of that name; your key was token-12345")
	})
	mux.HandleFunc("/shown", func(http.ResponseWriter, *http.Request) { once.Do(func() { close(shown) }) })
	mux.HandleFunc("/lost", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	mux.HandleFunc("/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/echo/there", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/reports", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "first\n::event {\"type\":\"step\",\"data\":{\"key\":\"\\u0074oken-12345\"}}\n")
		_ = http.NewResponseController(w).Flush()
		select { // the rest follows when the first event was shown
		case <-shown:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "::event {\"type\":\"step\"}\nlast\n::event token-12345\n")
	})
	mux.HandleFunc("/data", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data":[{"name":"Ann"},{"big":12345678901234567890,"a/b":true},"\u0074oken-12345"]}`)
	})
	mux.HandleFunc("/echo/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, r.Method+" "+r.URL.RequestURI()+" key="+r.Header.Get("Idempotency-Key")+
			" auth="+r.Header.Get("Authorization")+" x="+r.Header.Get("X-Id")+" "+string(body))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func secrets(name string) (string, error) {
	if name == "TOKEN" {
		return "token-12345", nil
	}
	return "", errors.New("there is no secret " + name)
}

// newTool makes a tool whose URL begins with the address of a server.
func newTool(t *testing.T, effect tool.Effect, r httpcall.Request) tool.Tool {
	t.Helper()
	return toolOn(t, server(t), effect, r)
}

func toolOn(t *testing.T, s *httptest.Server, effect tool.Effect, r httpcall.Request) tool.Tool {
	t.Helper()
	allow, err := egress.ParseAllow([]string{strings.TrimPrefix(s.URL, "http://")})
	if err != nil {
		t.Fatal(err)
	}
	r.URL = s.URL + r.URL
	spec := tool.Spec{
		Name: "people", Description: "Finds people.", Schema: json.RawMessage(schema), Effect: effect, Approval: tool.ApprovalNever,
		Timeout: 2 * time.Second,
	}
	subject, err := httpcall.New(spec, r, allow, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return subject
}

func call(t *testing.T, subject tool.Tool, args string) (tool.Result, error) {
	t.Helper()
	return subject.Call(t.Context(), tool.Call{
		ID: "call_7", Args: json.RawMessage(args), Progress: func(string) {}, Context: []byte(`{"user":{"id":"ann"}}`),
	})
}

func TestTool(t *testing.T) {
	t.Parallel()
	subject := newTool(t, tool.EffectNone, httpcall.Request{URL: "/echo/{id}"})
	tooltest.Run(t, subject, tooltest.Cases{
		Good: []string{`{"id":"ann"}`, `{"id":"a/b ?#c"}`},
		Bad:  []string{`{}`, `{"id":""}`, `{"id":".."}`, `{"id":"."}`, `{"id":null}`, `{"id":7}`},
		Slow: `{"id":"slow"}`,
	})
}

// TestEventsOfAnAnswer shows the first event before the answer has ended.
func TestEventsOfAnAnswer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		events  bool
		content string
		want    []string
	}{
		{"with events", true, "first\nlast\n::event (secret)\n[not an event: the line must be ::event {\"type\":…,\"data\":{…}}]\n",
			[]string{`step {"key":"(secret)"}`, "step {}"}},
		{"without", false, "first\n::event {\"type\":\"step\",\"data\":{\"key\":\"\\u0074oken-12345\"}}\n::event {\"type\":\"step\"}\nlast\n::event (secret)\n", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var address string
			reach := func() {
				response, err := http.Get(address + "/shown")
				if err != nil {
					t.Error(err)
					return
				}
				_ = response.Body.Close()
			}
			s := server(t)
			address = s.URL
			if !test.events {
				reach()
			}
			var shown, got []string
			result, err := toolOn(t, s, tool.EffectNone, httpcall.Request{
				URL: "/reports", Events: test.events, Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"},
			}).Call(t.Context(), tool.Call{
				ID: "call_7", Args: json.RawMessage(`{}`), Progress: func(string) {},
				Emit: func(e event.Custom) {
					shown = append(shown, e.Type+" "+string(e.Data))
					reach()
				},
			})
			for _, e := range result.Events {
				got = append(got, e.Type+" "+string(e.Data))
			}
			if err != nil || result.Content != test.content || !slices.Equal(got, test.want) || !slices.Equal(shown, test.want) {
				t.Errorf("got %q, %q, shown %q, %v; want %q and %q", result.Content, got, shown, err, test.content, test.want)
			}
		})
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		effect  tool.Effect
		request httpcall.Request
		args    string
		want    string
	}{
		{
			"an argument is one segment of a path", tool.EffectNone, httpcall.Request{URL: "/echo/{id}/x"},
			`{"id":"../a b?c=d#e%2f"}`, "GET /echo/..%2Fa%20b%3Fc=d%23e%252f/x key= auth= x= ",
		},
		{
			"an argument is one value of a query", tool.EffectNone,
			httpcall.Request{URL: "/echo/", Query: map[string]string{"q": "name:{id}", "n": "{n}"}},
			`{"id":"a&n=2"}`, "GET /echo/?q=name%3Aa%26n%3D2 key= auth= x= ",
		},
		{
			"headers carry secrets and arguments", tool.EffectNone,
			httpcall.Request{URL: "/echo/", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}", "X-Id": "{id}"}},
			`{"id":"7"}`, "GET /echo/ key= auth=Bearer (secret) x=7 ",
		},
		{
			"a header whose argument is missing is left out", tool.EffectNone,
			httpcall.Request{URL: "/echo/", Headers: map[string]string{"X-Id": "{id}"}}, `{}`, "GET /echo/ key= auth= x= ",
		},
		{
			"a header has a value of the request's context", tool.EffectNone,
			httpcall.Request{URL: "/echo/{context.user.id}", Headers: map[string]string{"X-Id": "u-{context.user.id}"}},
			`{}`, "GET /echo/ann key= auth= x=u-ann ",
		},
		{
			"a header whose value the context does not have is left out", tool.EffectNone,
			httpcall.Request{URL: "/echo/", Headers: map[string]string{"X-Id": "{context.gone}"}}, `{}`, "GET /echo/ key= auth= x= ",
		},
		{
			"a body has values of the context", tool.EffectUnsafe,
			httpcall.Request{Method: "POST", URL: "/echo/", Body: map[string]any{"by": "{context.user}", "a": "{id}"}},
			`{"id":"x"}`, `POST /echo/ key= auth= x= {"a":"x","by":{"id":"ann"}}`,
		},
		{
			"all arguments do not include the context", tool.EffectUnsafe,
			httpcall.Request{Method: "POST", URL: "/echo/", Query: map[string]string{"u": "{context.user.id}"}},
			`{"id":"x"}`, `POST /echo/?u=ann key= auth= x= {"id":"x"}`,
		},
		{
			"an idempotent call has its id as a key", tool.EffectIdempotent, httpcall.Request{Method: "PUT", URL: "/echo/"},
			`{"id":"x","n":1.50}`, `PUT /echo/ key=call_7 auth= x= {"id":"x","n":1.50}`,
		},
		{
			"a body keeps the types of its arguments", tool.EffectUnsafe,
			httpcall.Request{Method: "POST", URL: "/echo/", Body: map[string]any{
				"a": "{id}", "gone": "{n}", "deep": []any{"{tags}", "{n}", "id={id}", true, "${TOKEN}"},
			}},
			`{"id":"\"},{","tags":["x"]}`,
			`POST /echo/ key= auth= x= {"a":"\"},{","deep":[["x"],"id=\"},{",true,"(secret)"]}`,
		},
		{"a DELETE has no body", tool.EffectUnsafe, httpcall.Request{Method: "DELETE", URL: "/echo/{id}"}, `{"id":"7"}`, "DELETE /echo/7 key= auth= x= "},
		{"a GET is led on", tool.EffectNone, httpcall.Request{URL: "/moved"}, `{}`, "GET /echo/there key= auth= x= "},
		{"a pointer finds a string", tool.EffectNone, httpcall.Request{URL: "/data", Result: "/data/0/name"}, `{}`, "Ann"},
		{"a pointer finds a number as it was written", tool.EffectNone, httpcall.Request{URL: "/data", Result: "/data/1/big"}, `{}`, "12345678901234567890"},
		{
			"a pointer finds a secret that JSON has disguised", tool.EffectNone,
			httpcall.Request{URL: "/data", Result: "/data/2", Headers: map[string]string{"X-Id": "${TOKEN}"}}, `{}`, "(secret)",
		},
		{"a pointer finds an escaped name", tool.EffectNone, httpcall.Request{URL: "/data", Result: "/data/1/a~1b"}, `{}`, "true"},
		{"an empty pointer is the whole response", tool.EffectNone, httpcall.Request{URL: "/echo/x", Result: ""}, `{}`, "GET /echo/x key= auth= x= "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := call(t, newTool(t, test.effect, test.request), test.args)
			if err != nil || got.Content != test.want {
				t.Errorf("got  %q, %v\nwant %q", got.Content, err, test.want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		effect  tool.Effect
		request httpcall.Request
		args    string
		want    string // "" = the outcome of the call is unknown
	}{
		{
			"an error of the server is reported, without secrets", tool.EffectNone,
			httpcall.Request{URL: "/broken", Headers: map[string]string{"X-Id": "${TOKEN}"}}, `{}`,
			"answers HTTP 404 Not Found: no user of that name; your key was (secret)",
		},
		{"an answer without what is looked for", tool.EffectNone, httpcall.Request{URL: "/data", Result: "/data/3/name"}, `{}`, `the answer has no "/data/3"`},
		{"an array index with a leading zero", tool.EffectNone, httpcall.Request{URL: "/data", Result: "/data/00/name"}, `{}`, `the answer has no "/data/00"`},
		{"an array index with a sign", tool.EffectNone, httpcall.Request{URL: "/data", Result: "/data/+0"}, `{}`, `the answer has no "/data/+0"`},
		{"a missing name that is escaped", tool.EffectNone, httpcall.Request{URL: "/data", Result: "/data/1/c~1d/e"}, `{}`, `the answer has no "/data/1/c~1d"`},
		{"an answer that is not JSON", tool.EffectNone, httpcall.Request{URL: "/echo/", Result: "/data"}, `{}`, `the answer has no "/data"`},
		{"a header with a line break", tool.EffectNone, httpcall.Request{URL: "/echo/", Headers: map[string]string{"X-Id": "{id}"}}, `{"id":"a\r\nb: c"}`, "control characters"},
		{"a connection that breaks", tool.EffectNone, httpcall.Request{URL: "/cut"}, `{}`, "cannot be reached"},
		{"a connection that breaks under an unsafe call", tool.EffectUnsafe, httpcall.Request{Method: "POST", URL: "/cut"}, `{}`, ""},
		{"a proxy without an answer to an unsafe call", tool.EffectUnsafe, httpcall.Request{Method: "POST", URL: "/lost"}, `{}`, ""},
		{"a proxy without an answer to a safe call", tool.EffectNone, httpcall.Request{URL: "/lost"}, `{}`, "502"},
		{"a POST is not led on", tool.EffectUnsafe, httpcall.Request{Method: "POST", URL: "/moved"}, `{}`, "redirects"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := call(t, newTool(t, test.effect, test.request), test.args)
			code := apierr.CodeOf(err)
			if test.want == "" && (err == nil || code == apierr.ToolError) {
				t.Errorf("got %v, want an internal error", err)
			}
			if test.want != "" && (code != apierr.ToolError || !strings.Contains(apierr.From(err).Message, test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestThePortOfTheURLIsAllowed(t *testing.T) {
	t.Parallel()
	s := server(t)
	allow, err := egress.ParseAllow([]string{"127.0.0.1"}) // without a port
	if err != nil {
		t.Fatal(err)
	}
	spec := tool.Spec{Name: "x", Description: "x", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.EffectNone}
	subject, err := httpcall.New(spec, httpcall.Request{URL: s.URL + "/echo/x"}, allow, secrets)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := call(t, subject, `{}`); err != nil || !strings.HasPrefix(got.Content, "GET /echo/x") {
		t.Errorf("got %q, %v, want the answer of the port in the URL", got.Content, err)
	}
	other := server(t)
	moved, err := httpcall.New(spec, httpcall.Request{URL: redirecting(t, other.URL+"/echo/x")}, allow, secrets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, moved, `{}`); err == nil || !strings.Contains(err.Error(), "is not among the allowed ports") {
		t.Errorf("a redirect to another port: got %v, want a refusal", err)
	}
}

// redirecting returns the URL of a server that redirects to another address.
func redirecting(t *testing.T, to string) string {
	t.Helper()
	s := httptest.NewServer(http.RedirectHandler(to, http.StatusFound))
	t.Cleanup(s.Close)
	return s.URL
}

func TestGuardRunsBeforeHandlers(t *testing.T) {
	t.Parallel()
	spec := tool.Spec{Name: "x", Description: "x", Schema: json.RawMessage(`{"type":"object"}`), Effect: tool.EffectNone}
	subject, err := httpcall.New(spec, httpcall.Request{URL: server(t).URL + "/data"}, egress.AllowList{}, secrets)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call(t, subject, `{}`); apierr.CodeOf(err) != apierr.ToolError || !strings.Contains(err.Error(), "egress") {
		t.Errorf("got %v", err)
	}
}

func TestADescriptionThatIsWrong(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]httpcall.Request{
		"url: ":                 {URL: "https://a.example/{"},
		"there is no secret ME": {URL: "https://a.example/${ME}"},
		"headers.X: ":           {URL: "https://a.example", Headers: map[string]string{"X": "}"}},
		"query.x: ":             {URL: "https://a.example", Query: map[string]string{"x": "{a b}"}},
		"body: a: 0: ":          {URL: "https://a.example", Method: "POST", Body: map[string]any{"a": []any{"{"}}},
		"result: ":              {URL: "https://a.example", Result: "data/~2"},
		"method":                {URL: "https://a.example", Method: "FETCH"},
	} {
		if _, err := httpcall.New(tool.Spec{}, r, egress.AllowList{}, secrets); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %q", r, err, want)
		}
	}
	if httpcall.Effect("") != tool.EffectNone || httpcall.Effect("POST") != tool.EffectUnsafe {
		t.Error("a GET leaves nothing behind, and a POST may")
	}
}
