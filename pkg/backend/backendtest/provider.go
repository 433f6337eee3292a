package backendtest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"golang.org/x/tools/txtar"
)

// Opener makes a backend that calls a provider at url, without a version at its end, and tries again that many times
// before the first byte of an answer (negative = never).
type Opener func(url string, retries int) backend.Model

// Fault is an answer of a provider that a turn cannot use, and what must become of it.
type Fault struct {
	Name      string
	Answer    http.HandlerFunc
	Retryable bool
	After     time.Duration
	Message   string // a part of it
}

// Status answers every request with a status, a header ("Name: value" or "") and a body.
func Status(status int, header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if name, value, ok := strings.Cut(header, ": "); ok {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body) // the test fails on what is missing
	}
}

// Faults checks that each fault becomes a apierr.AgentError as it says. The key never shows in one.
func Faults(t *testing.T, open Opener, turn backend.Turn, key string, faults []Fault) {
	t.Helper()
	for _, want := range faults {
		t.Run(want.Name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(want.Answer)
			t.Cleanup(server.Close)
			_, err := Ask(t.Context(), open(server.URL, -1), turn)
			f, ok := errors.AsType[*apierr.Error](err)
			if !ok || f.Code != apierr.AgentError {
				t.Fatalf("got %v, want %s", err, apierr.AgentError)
			}
			if f.Retryable != want.Retryable || f.RetryAfter != want.After {
				t.Errorf("got retryable %t after %s, want %t after %s", f.Retryable, f.RetryAfter, want.Retryable, want.After)
			}
			if !strings.Contains(f.Message, want.Message) {
				t.Errorf("got message %q, want it to contain %q", f.Message, want.Message)
			}
			if strings.Contains(f.Error(), key) || strings.Contains(f.Error(), base64.StdEncoding.EncodeToString([]byte(key))) {
				t.Errorf("the key shows in %q", f.Error())
			}
		})
	}
}

// NoResponder checks that a provider that does not listen is a fault that may pass, with message as a part of it.
func NoResponder(t *testing.T, open Opener, turn backend.Turn, message string) {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	_, err := Ask(t.Context(), open(server.URL, -1), turn)
	f, ok := errors.AsType[*apierr.Error](err)
	if !ok || !f.Retryable || !strings.Contains(f.Message, message) {
		t.Errorf("got %v, want a retryable fault with %q", err, message)
	}
}

// Retry is how a provider answers the call n, from 1 on, of a backend that may try once more, and what comes of it.
type Retry struct {
	Name   string
	Answer func(n int64, w http.ResponseWriter)
	Calls  int64
	Fails  bool
}

// Retries checks how often a backend calls.
func Retries(t *testing.T, open Opener, turn backend.Turn, retries []Retry) {
	t.Helper()
	for _, want := range retries {
		t.Run(want.Name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				want.Answer(calls.Add(1), w)
			}))
			t.Cleanup(server.Close)
			_, err := Ask(t.Context(), open(server.URL, 1), turn)
			if (err != nil) != want.Fails || calls.Load() != want.Calls {
				t.Errorf("got %d calls and error %v, want %d and failure %t", calls.Load(), err, want.Calls, want.Fails)
			}
		})
	}
}

// Any checks that a stream, whatever it holds, becomes an answer or a apierr.AgentError. It is for fuzz tests.
func Any(t *testing.T, stream string, open func(*http.Client) backend.Model) {
	t.Helper()
	b := open(&http.Client{Transport: answering{strings.NewReader(stream)}})
	_, err := b.Run(t.Context(), backend.Turn{Model: "m"}, func(backend.Chunk) error { return nil })
	if err != nil && apierr.CodeOf(err) != apierr.AgentError {
		t.Errorf("got %v, want %s", err, apierr.AgentError)
	}
}

// AddStreams seeds a fuzz test of [Any] with the streams that [Replay] reads.
func AddStreams(f *testing.F, glob string) {
	f.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		f.Fatalf("no streams in %s: %v", glob, err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(archive.Files[0].Data))
	}
}

// Recorded answers with the stream of a file that [Replay] reads.
func Recorded(w http.ResponseWriter, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = w.Write(archive.Files[0].Data) // the test fails on what is missing
}

// Endless responds with begin and then with more, for half a minute or until the client disconnects.
func Endless(w http.ResponseWriter, r *http.Request, begin, more string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, begin) // the test fails on what is missing
	for range 600 {
		_, _ = io.WriteString(w, more) // as above
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(40 * time.Millisecond):
		}
	}
}

// Unreachable returns a client that passes each request to sees and then fails as if the host did not exist.
func Unreachable(sees func(*http.Request)) *http.Client {
	return &http.Client{Transport: unreachable(sees)}
}

type unreachable func(*http.Request)

// RoundTrip implements [http.RoundTripper].
func (u unreachable) RoundTrip(req *http.Request) (*http.Response, error) {
	u(req)
	return nil, fmt.Errorf("no server at %s", req.URL.Host)
}

// Golden compares an archive with a file; update writes the file.
func Golden(t *testing.T, file string, update bool, got *txtar.Archive) {
	t.Helper()
	text := txtar.Format(got)
	if update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(want) {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
