package tarko

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
)

var shareable = info{ID: "thr_1", Metadata: metadata{Name: "Sums & <b>more</b>!", Tags: []string{"a", "b"}}}

// site is a provider on this machine.
func site(t *testing.T, handle http.HandlerFunc) *Provider {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	p, err := NewProvider(config.Share{Provider: server.URL + "/upload", Allow: []string{strings.TrimPrefix(server.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPageIsHandedToTheProvider(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	p := site(t, func(w http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		page, _ := io.ReadAll(file)
		got["file"] = header.Filename + " " + string(page)
		for name, values := range r.MultipartForm.Value {
			got[name] = strings.Join(values, "|")
		}
		_, _ = io.WriteString(w, `{"url":"https://share.example.com/x","more":1}`)
	})
	at, err := p.upload(t.Context(), shareable, "six by seven?", "<html>")
	if err != nil || at != "https://share.example.com/x" {
		t.Fatalf("got %q, %v", at, err)
	}
	for name, want := range map[string]string{
		"file": "thr_1.html <html>", "sessionId": "thr_1", "type": "html", "slug": "sums-b-more-b-70420e", "query": "six by seven?",
		"name": "Sums & <b>more</b>!", "tags": `["a","b"]`,
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}

func TestProvidersThatTakeNoPage(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]struct {
		status     int
		body, says string
	}{
		"one that fails":                  {500, `{"url":"https://a.example"}`, "500"},
		"one that sends elsewhere":        {302, ``, "redirects"},
		"one that says nothing":           {200, ``, "EOF"},
		"one that gives no address":       {200, `{}`, "without the url"},
		"one that gives another's script": {200, `{"url":"javascript:alert(1)"}`, "without the url"},
		"one that talks too much":         {200, `{"x":"` + strings.Repeat("x", 70<<10) + `"}`, "large"},
	} {
		p := site(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Location", "https://elsewhere.example")
			w.WriteHeader(answer.status)
			_, _ = io.WriteString(w, answer.body)
		})
		if at, err := p.upload(t.Context(), shareable, "", ""); err == nil || !strings.Contains(err.Error(), answer.says) {
			t.Errorf("%s: got %q, %v, want an error that says %q", name, at, err, answer.says)
		}
	}
	guarded, err := NewProvider(config.Share{Provider: "http://127.0.0.1:1/upload"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guarded.upload(t.Context(), shareable, "", ""); err == nil || !strings.Contains(err.Error(), "egress") {
		t.Errorf("one that is not allowed: got %v", err)
	}
}

func TestClientsDoNotGetTheKeyOfAProvider(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://share.example.com/upload":                      "https://share.example.com/upload",
		"https://me:secret@share.example.com/upload?key=secret": "https://share.example.com/upload",
	} {
		p, err := NewProvider(config.Share{Provider: address})
		if err != nil || p.shown != want || p.address != address {
			t.Errorf("%s: got %+v, %v", address, p, err)
		}
	}
}
