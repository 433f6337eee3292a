package gateway_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// TestDurableStreamsConformance runs the published conformance suite of Durable Streams against the gateway. Its writes go to
// the log of a request, one event each; its reads go to the gateway. The tests that docs/durable-streams.md lists are left out,
// and all others must pass.
func TestDurableStreamsConformance(t *testing.T) {
	t.Parallel()
	const clients = "../e2e/clients"
	if _, err := os.Stat(filepath.Join(clients, "node_modules/@durable-streams")); err != nil {
		t.Skip("make test-clients installs the suite")
	}
	b := start(t, func(d *gateway.Deps) {
		d.Config.Gateway.Heartbeat = config.Duration(2 * time.Second)
		d.Config.Gateway.CORS = []string{"https://example.com"}
	})
	suite := httptest.NewServer(&writable{bench: b, streams: map[string]*written{}})
	t.Cleanup(suite.Close)
	leftOut := leftOut(t)
	report := filepath.Join(t.TempDir(), "report.json")
	vitest := exec.CommandContext(t.Context(), "npx", "vitest", "run", "--root", ".", "durablestreams_conformance.test.mjs",
		"--reporter=json", "--outputFile="+report, "-t", "^(?!("+strings.Join(escaped(leftOut), "|")+"))")
	vitest.Dir, vitest.Env = clients, append(os.Environ(), "STREAMS_URL="+suite.URL)
	out, failed := vitest.CombinedOutput()
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatalf("%v, %v\n%s", failed, err, out)
	}
	compare(t, text, leftOut)
}

func escaped(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, regexp.QuoteMeta(text))
	}
	return all
}

// leftOut lists the beginnings of the names of tests in the table of docs/durable-streams.md.
func leftOut(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/durable-streams.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| tests that are left out |")
	if !found {
		t.Fatal("docs/durable-streams.md has no table of tests that are left out")
	}
	var all []string
	for line := range strings.Lines(table) {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(cell, "` |")
			all = append(all, name)
		}
	}
	return all
}

// passing is how many tests of the suite apply.
const passing = 109

// compare checks the report of the suite: each test passes, and each row of the table leaves out some.
func compare(t *testing.T, text []byte, leftOut []string) {
	t.Helper()
	var report struct {
		TestResults []struct {
			AssertionResults []struct {
				FullName        string   `json:"fullName"`
				Status          string   `json:"status"`
				FailureMessages []string `json:"failureMessages"`
			} `json:"assertionResults"`
		} `json:"testResults"`
	}
	if err := json.Unmarshal(text, &report); err != nil || len(report.TestResults) != 1 {
		t.Fatalf("%v: %.500s", err, text)
	}
	passed, unused := 0, slices.Clone(leftOut)
	for _, test := range report.TestResults[0].AssertionResults {
		unused = slices.DeleteFunc(unused, func(row string) bool { return strings.HasPrefix(test.FullName, row) })
		switch test.Status {
		case "passed":
			passed++
		case "failed":
			t.Errorf("%s: %.600s", test.FullName, strings.Join(test.FailureMessages, "\n"))
		}
	}
	t.Logf("%d tests of the suite passed", passed)
	if passed < passing {
		t.Errorf("%d tests passed, want %d", passed, passing)
	}
	if len(unused) > 0 {
		t.Errorf("the table leaves out tests that the suite does not have: %q", unused)
	}
}

// writable makes streams that the suite writes out of requests: the content of a write is the delta of a text in the log. Reads
// are those of the gateway; of their messages only that content is kept.
type writable struct {
	*bench
	mu      sync.Mutex
	streams map[string]*written
}

// written is a stream.
type written struct {
	path        string // at the gateway
	contentType string
	log         *bus.Writer
	closed      bool
}

func (w *writable) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	s := w.streams[r.URL.Path]
	w.mu.Unlock()
	var status int
	var err error
	switch {
	case r.Method == http.MethodPut:
		status, err = w.put(s, out, r)
	case s == nil && (r.Method == http.MethodPost || r.Method == http.MethodDelete):
		status = http.StatusNotFound
	case r.Method == http.MethodPost:
		status, err = w.append(s, r)
	case r.Method == http.MethodDelete:
		w.mu.Lock()
		delete(w.streams, r.URL.Path)
		w.mu.Unlock()
		status = http.StatusNoContent
	default:
		w.read(s, out, r)
		return
	}
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	if status == http.StatusNoContent && r.Method == http.MethodPost {
		w.position(s, out)
	}
	out.WriteHeader(status)
}

// put creates a stream.
func (w *writable) put(s *written, out http.ResponseWriter, r *http.Request) (int, error) {
	if s != nil {
		return http.StatusOK, nil
	}
	accepted := w.do(w.request(http.MethodPost, "/v1/agents/demo/requests", hello))
	requestID := accepted.header.Get("X-Request-Id")
	if requestID == "" {
		return 0, fmt.Errorf("got %d %s", accepted.status, accepted.body)
	}
	s = &written{path: "/streams/" + requestID, contentType: r.Header.Get("Content-Type")}
	if s.contentType == "" {
		s.contentType = "application/octet-stream"
	}
	var err error
	if s.log, _, err = w.bus.Claim(w.t.Context(), w.log(requestID), "suite", "test"); err != nil {
		return 0, err
	}
	w.mu.Lock()
	w.streams[r.URL.Path] = s
	w.mu.Unlock()
	if _, err := w.append(s, r); err != nil {
		return 0, err
	}
	out.Header().Set("Location", "http://"+r.Host+r.URL.Path)
	out.Header().Set("Content-Type", s.contentType)
	w.position(s, out)
	return http.StatusCreated, nil
}

// append writes the body of a request, one event for each message of a JSON stream, and closes the stream where the request
// says so.
func (w *writable) append(s *written, r *http.Request) (int, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err
	}
	if len(body) > 300<<10 {
		return http.StatusRequestEntityTooLarge, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.closed {
		return http.StatusConflict, nil
	}
	parts := [][]byte{body}
	if s.isJSON() && len(body) > 0 {
		var list []jsontext.Value
		if json.Unmarshal(body, &list) == nil {
			parts = nil
			for _, one := range list {
				parts = append(parts, one)
			}
		}
	}
	var bodies []event.Body
	for _, part := range parts {
		if len(part) > 0 {
			bodies = append(bodies, delta(base64.StdEncoding.EncodeToString(part)))
		}
	}
	if s.closed = strings.EqualFold(r.Header.Get("Stream-Closed"), "true"); s.closed {
		bodies = append(bodies, done())
	}
	if err := s.log.Emit(bodies...); err != nil {
		return 0, err
	}
	return http.StatusNoContent, s.log.Flush(context.WithoutCancel(r.Context()))
}

// position sets the headers of the end of a stream, as the gateway reports it.
func (w *writable) position(s *written, out http.ResponseWriter) {
	head := w.do(w.request(http.MethodHead, s.path, ""))
	for _, name := range []string{"Stream-Next-Offset", "Stream-Closed"} {
		if value := head.header.Get(name); value != "" {
			out.Header().Set(name, value)
		}
	}
}

// isJSON reports whether the suite writes JSON.
func (s *written) isJSON() bool {
	return strings.HasPrefix(strings.ToLower(s.contentType), "application/json")
}

// read passes a read to the gateway.
func (w *writable) read(s *written, out http.ResponseWriter, r *http.Request) {
	path := "/streams/none"
	if s != nil {
		path = s.path
	}
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	to := w.request(r.Method, path, "").WithContext(r.Context())
	to.Header = r.Header.Clone()
	to.Header.Del("Accept-Encoding") // the client of this test compresses by itself
	response, err := w.server.Client().Do(to)
	if err != nil {
		return // the suite has ended the read
	}
	defer func() { _ = response.Body.Close() }()
	maps.Copy(out.Header(), response.Header)
	out.Header().Del("Content-Length")
	if s == nil || response.StatusCode >= http.StatusBadRequest {
		out.WriteHeader(response.StatusCode)
		_, _ = io.Copy(out, response.Body)
		return
	}
	if strings.HasPrefix(response.Header.Get("Content-Type"), sse.ContentType) {
		s.copyEvents(out, response.Body)
		return
	}
	if response.Header.Get("Content-Type") != "" {
		out.Header().Set("Content-Type", s.contentType)
	}
	body, err := io.ReadAll(response.Body)
	out.WriteHeader(response.StatusCode)
	if err == nil && len(body) > 0 {
		_, _ = out.Write(s.join(contents(body)))
	}
}

// contents returns what the suite has written of the messages of a response.
func contents(messages []byte) [][]byte {
	var all []struct {
		Event string `json:"event"`
		Delta []byte `json:"delta"`
	}
	if err := json.Unmarshal(messages, &all); err != nil {
		return [][]byte{[]byte(err.Error())}
	}
	var written [][]byte
	for _, m := range all {
		if m.Event == "text" {
			written = append(written, m.Delta)
		}
	}
	return written
}

// join returns contents as a response of the stream has them.
func (s *written) join(contents [][]byte) []byte {
	if s.isJSON() {
		return slices.Concat([]byte("["), bytes.Join(contents, []byte(",")), []byte("]"))
	}
	return bytes.Join(contents, nil)
}

// copyEvents copies server-sent events, without the data of messages that the suite has not written.
func (s *written) copyEvents(out http.ResponseWriter, in io.Reader) {
	out.WriteHeader(http.StatusOK)
	events, control := sse.NewReader(in), http.NewResponseController(out)
	for {
		_ = control.Flush()
		e, err := events.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				panic(http.ErrAbortHandler)
			}
			return
		}
		data := e.Data
		if e.Name == "data" {
			list := contents(e.Data)
			if len(list) == 0 {
				continue
			}
			data = s.join(list)
		}
		_, _ = fmt.Fprintf(out, "event: %s\ndata:%s\n\n", e.Name, bytes.ReplaceAll(data, []byte("\n"), []byte("\ndata:")))
	}
}
