package inspect_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/inspect"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// thread is a gateway with a thread of these events and no other; a last page that is not there cuts it.
func thread(t *testing.T, cut bool, lines ...string) *client.Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/requests/{id}", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s was read, although the id is that of a thread", r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w, `{"event":"error","requestId":"r","timestamp":"2026-03-14T09:26:53Z","code":"request_not_found","message":"no","retryable":false}`)
	})
	mux.HandleFunc("GET /v1/threads/{id}", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"threadId":"thr_1","agentId":"demo","owner":"me","requests":1,"lastRequestId":"req_1","createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-01T00:00:00Z"}`)
	})
	mux.HandleFunc("GET /v1/threads/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("cursor") != "" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		next := ""
		if cut {
			next = `,"nextCursor":"x"`
		}
		_, _ = fmt.Fprintf(w, `{"events":[%s]%s}`, strings.Join(lines, ","), next)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return client.New(server.URL, "")
}

const (
	envelope = `"requestId":"req_1","timestamp":"2026-03-14T09:26:53Z"`
	good     = `{"event":"claim","id":"a-0",` + envelope + `,"epoch":1,"runner":"r"}`
	early    = `{"event":"notice","id":"a-1",` + envelope + `,"level":"loud","message":"hm"}`
	newer    = `{"event":"dream","id":"a-2",` + envelope + `,"of":"\u001b[2Jsheep"}`
)

func TestValidateReportsErrors(t *testing.T) {
	t.Parallel()
	var out, side bytes.Buffer
	err := inspect.Run(t.Context(), inspect.Options{
		Client: thread(t, false, good, early, newer), ID: "thr_1", Format: inspect.Native, Validate: true,
	}, &out, &side)
	if !errors.Is(err, screen.ErrShown) {
		t.Errorf("got %v", err)
	}
	const want = "req_1 1 notice: /level: value must be one of 'info', 'warning', 'error'\n" +
		"3 events checked: 1 wrong, 1 of types without a schema\n"
	if side.String() != want {
		t.Errorf("got %q, want %q", &side, want)
	}
	if out.Len() > 0 {
		t.Errorf("got %q in addition to the mistakes", &out)
	}
	out.Reset()
	if err := inspect.Run(t.Context(), inspect.Options{Client: thread(t, false, newer), ID: "thr_1", Format: inspect.Native}, &out, &side); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "sheep") {
		t.Errorf("the terminal obeys %q", &out)
	}
}

// An export that breaks off returns an error, and leaves no file that looks whole.
func TestALogThatBreaksOff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, o := range map[string]inspect.Options{
		"shown": {}, "counted": {Stats: true}, "as JSON": {JSON: true}, "the last": {Last: 1}, "checked": {Validate: true},
		"exported": {Output: filepath.Join(dir, "events.json")}, "in other words": {Format: inspect.Tarko},
	} {
		o.Client, o.ID = thread(t, true, good), "thr_1"
		if o.Format == "" {
			o.Format = inspect.Native
		}
		if err := inspect.Run(t.Context(), o, &bytes.Buffer{}, &bytes.Buffer{}); err == nil || errors.Is(err, screen.ErrShown) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestFormatsAreNamed(t *testing.T) {
	t.Parallel()
	err := inspect.Run(t.Context(), inspect.Options{Format: "yaml", Filter: eventstream.Of("*")}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "use native, tarko or protocol") {
		t.Errorf("got %v", err)
	}
}
