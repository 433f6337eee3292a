package stream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"go.opentelemetry.io/otel/metric/noop"
)

// script is frames that come at their times, and then an error.
type script struct {
	frames []event.Frame
	gap    time.Duration // before each frame
	next   time.Time
	end    error
	closed bool
}

func (s *script) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	if s.next.IsZero() {
		s.next = time.Now().Add(s.gap)
	}
	if until := time.Until(s.next); until > wait {
		return event.Frame{}, sleep(ctx, wait, bus.ErrIdle)
	} else if err := sleep(ctx, until, nil); err != nil {
		return event.Frame{}, err
	}
	if len(s.frames) == 0 {
		return event.Frame{}, s.end
	}
	f := s.frames[0]
	s.frames, s.next = s.frames[1:], time.Time{}
	return f, nil
}

func (s *script) Ready() bool { return s.gap == 0 }
func (s *script) Close()      { s.closed = true }

func sleep(ctx context.Context, d time.Duration, then error) error {
	select {
	case <-time.After(d):
		return then
	case <-ctx.Done():
		return ctx.Err()
	}
}

func frames(texts ...string) []event.Frame {
	all := make([]event.Frame, len(texts))
	for i, text := range texts {
		all[i] = event.Frame{Incarnation: "x", First: uint64(i), Names: []event.Name{event.NameText}, Lines: []byte(text + "\n")}
	}
	return all
}

// counter counts writes and flushes.
type counter struct {
	*httptest.ResponseRecorder
	writes  []int
	flushes int
}

func (c *counter) Write(p []byte) (int, error) {
	c.writes = append(c.writes, len(p))
	return c.ResponseRecorder.Write(p)
}
func (c *counter) Flush() { c.flushes++ }

func serve(ctx context.Context, t *testing.T, w http.ResponseWriter, a stream.Response) error {
	t.Helper()
	meter, err := metrics.New(noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	if a.Encoder, err = (wire.Codec{}).Encoder(codec.Options{}); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	return stream.NewStreamer(15*time.Second, time.Hour, meter).Serve(w, r, a)
}

func TestWhatIsReadyIsWrittenAtOnce(t *testing.T) {
	t.Parallel()
	w := &counter{ResponseRecorder: httptest.NewRecorder()}
	texts := make([]string, 1000)
	for i := range texts {
		texts[i] = strings.Repeat("x", 100)
	}
	source := &script{frames: frames(texts...), end: io.EOF}
	if err := serve(t.Context(), t, w, stream.Response{Frames: source, DeferHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if len(w.writes) > 12 || len(w.writes) < 5 || w.flushes > len(w.writes) {
		t.Errorf("%d bytes in %d writes and %d flushes, want writes of about 16 KiB", w.Body.Len(), len(w.writes), w.flushes)
	}
	if got := strings.Count(w.Body.String(), "event: text\n"); got != 1000 {
		t.Errorf("got %d events, want 1000", got)
	}
	if !source.closed {
		t.Error("the frames are not closed")
	}
}

func TestHeartbeatsComeWhileNothingElseDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &counter{ResponseRecorder: httptest.NewRecorder()}
		source := &script{frames: frames("a", "b"), gap: 40 * time.Second, end: io.EOF}
		begin := time.Now()
		if err := serve(t.Context(), t, w, stream.Response{Frames: source, DeferHeaders: true}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 120*time.Second {
			t.Errorf("took %v", took)
		}
		if got := strings.Count(w.Body.String(), ": heartbeat\n\n"); got != 6 {
			t.Errorf("got %d heartbeats in three quiet times of 40s, want 6:\n%s", got, w.Body)
		}
	})
}

func TestAStreamThatFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := []struct {
		what   string
		frames []event.Frame
		hold   bool
		cut    bool
	}{
		{"before the first event, while the status is held, is an answer", nil, true, false},
		{"before the first event, after the status, is cut", nil, false, true},
		{"after the first event is cut", frames("a"), true, true},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			w := &counter{ResponseRecorder: httptest.NewRecorder()}
			source := &script{frames: test.frames, gap: time.Nanosecond, end: broken}
			err := serve(t.Context(), t, w, stream.Response{Frames: source, DeferHeaders: test.hold})
			if !errors.Is(err, broken) || errors.Is(err, stream.ErrTruncated) != test.cut || errors.Is(err, stream.ErrDisconnected) {
				t.Errorf("got %v", err)
			}
			if (len(w.writes) > 0) != test.cut {
				t.Errorf("wrote %v", w.writes)
			}
		})
	}
}

func TestAClientThatLeavesIsNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		err := serve(ctx, t, &counter{ResponseRecorder: httptest.NewRecorder()}, stream.Response{Frames: &script{gap: time.Hour}})
		if !errors.Is(err, stream.ErrDisconnected) || !errors.Is(err, stream.ErrTruncated) {
			t.Errorf("got %v, want ErrLeft", err)
		}
	})
}

// TestAClientThatTakesNothingIsGivenUp writes into a connection whose client reads nothing.
func TestAClientThatTakesNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	text := strings.Repeat("x", 1<<20)
	texts := make([]string, 64)
	for i := range texts {
		texts[i] = text
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ended <- serve(r.Context(), t, w, stream.Response{Frames: &script{frames: frames(texts...), end: io.EOF}})
	}))
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, stream.ErrTruncated) || errors.Is(err, stream.ErrDisconnected) {
			t.Errorf("got %v, want ErrCut", err)
		}
	case <-time.After(30 * time.Second):
		t.Error("still writing after 30 seconds")
	}
}

// http2Stream is a response over HTTP/2, whose stream is reset when a write deadline passes, whatever happens meanwhile.
type http2Stream struct {
	*httptest.ResponseRecorder
	timer *time.Timer
	reset chan struct{}
	armed int
}

func (s *http2Stream) SetWriteDeadline(until time.Time) error {
	if s.timer != nil {
		s.timer.Stop()
	}
	if !until.IsZero() {
		s.armed++
		s.timer = time.AfterFunc(time.Until(until), func() { close(s.reset) })
	}
	return nil
}

func TestAQuietStreamOverHTTP2IsNotReset(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &http2Stream{ResponseRecorder: httptest.NewRecorder(), reset: make(chan struct{})}
		if err := w.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil { // as for every response
			t.Fatal(err)
		}
		meter, err := metrics.New(noop.NewMeterProvider())
		if err != nil {
			t.Fatal(err)
		}
		encoder, err := (wire.Codec{}).Encoder(codec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.ProtoMajor, r.ProtoMinor = 2, 0
		source := &script{frames: frames("a", "b"), gap: 2 * time.Minute, end: io.EOF}
		streamer := stream.NewStreamer(10*time.Minute, time.Hour, meter)
		if err := streamer.Serve(w, r, stream.Response{Encoder: encoder, Frames: source}); err != nil {
			t.Fatal(err)
		}
		select {
		case <-w.reset:
			t.Error("a deadline passed between two writes")
		default:
		}
		if w.armed < 3 {
			t.Errorf("got %d deadlines, want one for each write", w.armed)
		}
	})
}
