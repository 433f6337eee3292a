package upstream_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
)

func TestRefusedTellsNoSecretsAndNoNovels(t *testing.T) {
	t.Parallel()
	api := upstream.API{Name: "Acme", Key: "hunter2", KeyEnv: "ACME_KEY", BaseEnv: "ACME_URL"}
	tests := []struct{ name, detail, want string }{
		{"a plain reason", "temperature is out of range", ": temperature is out of range"},
		{"no reason", "", "configuration"},
		{"line breaks and control characters", "a\r\n\tb\x00\x1b[31mc\u2028d", ": a b [31mc d"},
		{"our key", "key hunter2 is bad", ": key … is bad"},
		{"another's key", "Incorrect key: 'sk-proj-abc***xyz'.", ": Incorrect key: …"},
		{"a long token", "token 0123456789abcdef0123456789abcdef given", ": token … given"},
		{"a long text", strings.Repeat("é ", 500), strings.Repeat("é ", 100) + "…"},
		{"no UTF-8", "a\xffb", ": ab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := api.Refused(http.StatusBadRequest, nil, tt.detail, "req_1")
			if !strings.HasSuffix(f.Message, tt.want) || f.Retryable {
				t.Errorf("got %q, want it to end with %q", f.Message, tt.want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		header, value string
		want          time.Duration
	}{
		{"Retry-After", "3", 3 * time.Second},
		{"Retry-After", "0.5", 500 * time.Millisecond},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:35 GMT", 30 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:00 GMT", 0},
		{"Retry-After", "-3", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e300", 24 * time.Hour},
		{"Retry-After", "soon", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"X-Other", "3", 0},
	}
	for _, tt := range tests {
		if got := upstream.RetryAfter(http.Header{tt.header: {tt.value}}, now); got != tt.want {
			t.Errorf("%s: %s: got %s, want %s", tt.header, tt.value, got, tt.want)
		}
	}
}

func TestReadTimeoutAppliesToEachRead(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 10 {
			_, _ = io.WriteString(w, "tick\n") // a reader that is gone ends the handler below
			w.(http.Flusher).Flush()
			time.Sleep(150 * time.Millisecond) // longer in all than the timeout
		}
		if r.URL.Path == "/silent" {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	client := upstream.NewClient(time.Second)
	tests := []struct {
		path string
		want error
	}{{"/", nil}, {"/silent", upstream.ErrStalled}}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			res, err := client.Get(server.URL + tt.path)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, err := io.ReadAll(res.Body)
			if !errors.Is(err, tt.want) || strings.Count(string(body), "tick") != 10 {
				t.Errorf("got %q and error %v, want 10 ticks and %v", body, err, tt.want)
			}
		})
	}
}

func TestHeadersThatDoNotComeInTime(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	res, err := upstream.NewClient(50 * time.Millisecond).Get(server.URL)
	if err == nil {
		_ = res.Body.Close() // there should be none
	}
	if !errors.Is(err, upstream.ErrStalled) {
		t.Fatalf("got %v, want %v", err, upstream.ErrStalled)
	}
	if f := (upstream.API{Name: "Acme"}).Unreachable(err); !f.Retryable || !strings.Contains(f.Message, "does not answer") {
		t.Errorf("got %v", f)
	}
}

func TestBodiesOfErrorsAreCut(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20)) // the reader stops early
	}))
	t.Cleanup(server.Close)
	res, err := upstream.NewClient(0).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || len(body) != 64<<10 {
		t.Errorf("got %d bytes and error %v, want 64 KiB", len(body), err)
	}
}

func TestTheProviderItselfWantsAKey(t *testing.T) {
	t.Parallel()
	own := upstream.API{Own: true, Name: "OpenAI", KeyEnv: "OPENAI_API_KEY"}
	if err := own.Keyed(); err == nil || !strings.Contains(err.Error(), "set OPENAI_API_KEY") {
		t.Errorf("got %v", err)
	}
	own.Key = "sk-1"
	if err := own.Keyed(); err != nil {
		t.Errorf("with a key: %v", err)
	}
	if err := (upstream.API{Name: "a local server"}).Keyed(); err != nil {
		t.Errorf("a server that wants none: %v", err)
	}
}
