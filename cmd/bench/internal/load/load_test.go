package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// event writes one event of a stream.
func event(name string, n int, data string) string {
	return fmt.Sprintf("id: k3f9-%d\nevent: %s\ndata: {\"event\":%q,%s}\n\n", n, name, name, data)
}

func delta(n int) string {
	return event("text", n, `"timestamp":"2026-03-14T09:26:53.000001Z","stage":"delta","delta":"x"`)
}

func TestReadHoldsAStreamToItsPromises(t *testing.T) {
	t.Parallel()
	start := event("metadata", 2, `"agentId":"demo"`)
	done := event("done", 7, `"finishReason":"stop"`)
	tests := []struct {
		name, stream, wrong string
	}{
		{"in order, hidden events skipped at both ends", start + delta(3) + delta(4) + done, ""},
		{"with comments and a retry time", "retry: 3000\n\n" + start + ": heartbeat\n\n" + delta(3) + delta(4) + done, ""},
		{"an event is left out", start + delta(3) + delta(5) + done, "event 5 comes where 4 is next"},
		{"an event comes twice", start + delta(3) + delta(3) + done, "event 3 comes again"},
		{"two events are swapped", start + delta(4) + delta(3) + done, "event 4 comes where 3 is next"},
		{"a delta is left out before the end", start + delta(3) + done, "got 1 deltas, want 2"},
		{"no terminal event", start + delta(3) + delta(4), "without a terminal one"},
		{"the terminal event twice", start + delta(3) + delta(4) + done + event("done", 8, `"x":1`), "after the terminal one"},
		{"an event after the terminal one", start + delta(3) + done + delta(8), "after the terminal one"},
		{"another terminal event", start + delta(3) + event("error", 4, `"code":"agent_error"`), "agent_error"},
		{"cut within an event", start + delta(3)[:20], "unexpected EOF"},
		{"an invalid id", start + strings.Replace(delta(3), "k3f9-3", "k3f9", 1), "has no number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, tt.stream)
			}))
			t.Cleanup(server.Close)
			client := New(4 << 10)
			t.Cleanup(client.Close)
			_, err := client.Read(t.Context(), Request{Method: http.MethodGet, URL: server.URL, Deltas: 2})
			if tt.wrong == "" && err != nil {
				t.Fatal(err)
			}
			if tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Fatalf("got %v, want %q", err, tt.wrong)
			}
		})
	}
}

func TestReadCountsBytesHoweverTheyCome(t *testing.T) {
	t.Parallel()
	long := event("text", 5, `"stage":"stop","text":"`+strings.Repeat("x", 100_000)+`"`)
	stream := event("metadata", 2, `"a":1`) + ": heartbeat\n\n" + delta(3) + delta(4) + long + event("done", 6, `"a":1`)
	want := len(stream) - len(": heartbeat\n\n")
	for name, in := range map[string]io.Reader{
		"at once":       strings.NewReader(stream),
		"byte by byte":  iotest.OneByteReader(strings.NewReader(stream)),
		"in halves":     iotest.HalfReader(strings.NewReader(stream)),
		"data with EOF": iotest.DataErrReader(strings.NewReader(stream)),
	} {
		r := newReader(in, 1)
		got, events := 0, 0
		for {
			e, err := r.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got += e.wire
			events++
		}
		if got != want || events != 5 {
			t.Errorf("%s: got %d bytes in %d events, want %d in 5", name, got, events, want)
		}
	}
}

func TestReadReturnsAStatusAndItsBody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "slow down", http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	client := New(4 << 10)
	t.Cleanup(client.Close)
	_, err := client.Read(t.Context(), Request{Method: http.MethodPost, URL: server.URL, Body: "{}"})
	if err == nil || !strings.Contains(err.Error(), "429") || !strings.Contains(err.Error(), "slow down") {
		t.Errorf("got %v", err)
	}
}

func TestHoldKeepsStreamOpenUntilReleased(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, delta(1))
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/held" {
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	client := New(4 << 10)
	t.Cleanup(client.Close)

	ctx, cancel := context.WithCancel(t.Context())
	if err := client.Hold(ctx, Request{Method: http.MethodGet, URL: server.URL + "/held"}, cancel); err != nil {
		t.Errorf("a stream that was left: %v", err)
	}
	if err := client.Hold(t.Context(), Request{Method: http.MethodGet, URL: server.URL}, func() {}); err == nil {
		t.Error("a stream that ended by itself gives no error")
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(delta(1) + delta(2)))
	f.Add([]byte("id: x\n\ndata\n: \n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := newReader(strings.NewReader(string(stream)), longest)
		total := 0
		for {
			e, err := r.next()
			if err != nil {
				break
			}
			total += e.wire
		}
		if total > len(stream) {
			t.Errorf("counted %d bytes of %d", total, len(stream))
		}
	})
}
