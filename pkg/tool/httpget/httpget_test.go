package httpget_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/egress"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/httpget"
	"github.com/agentbus/agentbus/pkg/tool/tooltest"
)

// site starts a server, and returns its URL and the tool that may reach it.
func site(t *testing.T) (string, tool.Tool) {
	t.Helper()
	mux := http.NewServeMux()
	page := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(text))
		}
	}
	mux.HandleFunc("/hello", page("text/plain; charset=utf-8", "hello"))
	mux.HandleFunc("/json", page("application/problem+json", `{"a":1}`))
	mux.HandleFunc("/image", page("image/png", "\x89PNG"))
	mux.HandleFunc("/utf16", page("text/plain; charset=utf-16", "h\x00i\x00"))
	mux.HandleFunc("/latin1", page("text/plain; charset=iso-8859-1", "caf\xe9"))
	mux.HandleFunc("/long", page("text/plain", strings.Repeat("x", 300<<10)))
	mux.HandleFunc("/gone", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such page", http.StatusNotFound) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/hello", http.StatusFound) })
	mux.HandleFunc("/inside", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	allow, err := egress.ParseAllow([]string{server.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	return server.URL, httpget.New(allow)
}

func TestHTTPGet(t *testing.T) {
	url, subject := site(t)
	tooltest.Run(t, subject, tooltest.Cases{
		Good: []string{`{"url":"` + url + `/hello"}`},
		Bad: []string{
			`{}`, `{"url":""}`, `{"url":7}`, `{"url":"not a url"}`, `{"url":"file:///etc/passwd"}`, `{"url":"http://127.0.0.3/"}`,
			`{"url":"http://user:secret@example.com/"}`, `{"url":"http://a b/"}`, `{"url":"https://example.com","method":"POST"}`,
		},
		Slow: `{"url":"` + url + `/silent"}`,
	})
}

func TestHTTPGetReadsPages(t *testing.T) {
	t.Parallel()
	url, subject := site(t)
	tests := []struct{ name, path, content, summary string }{
		{"text", "/hello", "hello", "200 OK, text/plain, 5 bytes"},
		{"JSON of any kind", "/json", `{"a":1}`, "200 OK, application/problem+json, 7 bytes"},
		{"text of another charset, with what is not UTF-8 replaced", "/latin1", "caf\uFFFD", "200 OK, text/plain, 4 bytes"},
		{"after a redirect", "/moved", "hello", "200 OK, text/plain, 5 bytes"},
		{"with its status, when it is not a success", "/gone", "HTTP 404 Not Found\n\nno such page\n", "404 Not Found, text/plain, 13 bytes"},
		{"only the start of a long one", "/long", strings.Repeat("x", 256<<10) + "\n[cut: the page is longer than 262144 bytes]",
			"200 OK, text/plain, the first 262144 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			result, err := subject.Call(t.Context(), tool.Call{Args: json.RawMessage(`{"url":"` + url + test.path + `"}`)})
			if err != nil {
				t.Fatal(err)
			}
			if result.Content != test.content || result.Summary != test.summary {
				t.Errorf("got %.80q, %q, want %.80q, %q", result.Content, result.Summary, test.content, test.summary)
			}
		})
	}
}

func TestHTTPGetErrors(t *testing.T) {
	t.Parallel()
	url, subject := site(t)
	tests := []struct{ name, url, want string }{
		{"read an image", url + "/image", "only text can be read"},
		{"read UTF-16", url + "/utf16", "only text can be read"},
		{"follow a redirect to the inside", url + "/inside", "is denied"},
		{"reach the inside", "http://10.0.0.1/", "is denied"},
		{"reach another port", "http://127.0.0.1:4222/", "port 4222"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := subject.Call(t.Context(), tool.Call{Args: json.RawMessage(`{"url":"` + test.url + `"}`)})
			if f := apierr.From(err); f.Code != apierr.ToolError || !strings.Contains(f.Message, test.want) {
				t.Errorf("got %v, want tool_error that says %q", err, test.want)
			}
		})
	}
}
