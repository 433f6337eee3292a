package stream_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/native/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"go.opentelemetry.io/otel/metric/noop"
)

// channel is frames that a test sends; they end when it is closed.
type channel chan event.Frame

func (c channel) Next(ctx context.Context, wait time.Duration) (event.Frame, error) {
	select {
	case f, ok := <-c:
		if !ok {
			return f, io.EOF
		}
		return f, nil
	case <-time.After(wait):
		return event.Frame{}, bus.ErrIdle
	case <-ctx.Done():
		return event.Frame{}, ctx.Err()
	}
}

func (c channel) Ready() bool { return len(c) > 0 }
func (c channel) Close()      {}

// eager is frames that promise more than they have, as a log does whose next frame has to wait for memory or a turn.
type eager struct{ channel }

func (eager) Ready() bool { return true }

// lot is a server whose streams are parked, and one client's connection to it.
type lot struct {
	t        *testing.T
	streamer *stream.Streamer
	frames   channel
	returned chan error // of each handler
	ended    chan error // of each stream
	conn     net.Conn
	in       *bufio.Reader
}

func open(t *testing.T) *lot {
	t.Helper()
	meter, err := metrics.New(noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	l := &lot{
		t: t, streamer: stream.NewStreamer(15*time.Second, time.Hour, meter), frames: make(channel, 1),
		returned: make(chan error, 1), ended: make(chan error, 1),
	}
	mux := http.NewServeMux()
	for path, source := range map[string]stream.Frames{"/stream": l.frames, "/eager": eager{l.frames}} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			enc, _ := (wire.Codec{}).Encoder(codec.Options{})
			l.returned <- l.streamer.Serve(w, r, stream.Response{
				Encoder: enc, Frames: source, DeferHeaders: path == "/stream", Ended: func(err error) { l.ended <- err },
			})
		})
	}
	mux.HandleFunc("/plain", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "plain") })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	if l.conn, err = net.Dial("tcp", server.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.conn.Close() })
	if err := l.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	l.in = bufio.NewReader(l.conn)
	return l
}

func (l *lot) say(text string) {
	l.t.Helper()
	if _, err := io.WriteString(l.conn, text); err != nil {
		l.t.Fatal(err)
	}
}

// answer returns the body of the next response.
func (l *lot) answer() io.Reader {
	l.t.Helper()
	r, err := http.ReadResponse(l.in, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = r.Body.Close() })
	return r.Body
}

// parked opens a stream, and returns its body when the handler has left it.
func (l *lot) parked() io.Reader {
	l.t.Helper()
	l.say("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n")
	l.frames <- frames("first")[0]
	r := l.answer()
	if err := <-l.returned; err != nil {
		l.t.Fatal(err)
	}
	select {
	case err := <-l.ended:
		l.t.Fatalf("the stream has ended with its handler: %v", err)
	default:
	}
	return r
}

func (l *lot) all(r io.Reader) string {
	l.t.Helper()
	body, err := io.ReadAll(r)
	if err != nil {
		l.t.Fatal(err)
	}
	return string(body)
}

func TestIdleStreamIsDetached(t *testing.T) {
	t.Parallel()
	l := open(t)
	r := l.parked()
	for _, f := range frames("first", "second", strings.Repeat("third", 10_000))[1:] {
		l.frames <- f
	}
	close(l.frames)
	if got := l.all(r); strings.Count(got, "event: text\n") != 3 || !strings.HasSuffix(got, "third\n\n") {
		t.Errorf("got %d bytes with %d events", len(got), strings.Count(got, "event: text\n"))
	}
	if err := <-l.ended; err != nil {
		t.Errorf("the stream ended with %v", err)
	}
}

// It is not parallel: it looks at the heap of the whole process.
func TestAnEventIsSentThoughTheNextOneIsLate(t *testing.T) {
	t.Parallel()
	l := open(t)
	l.say("GET /eager HTTP/1.1\r\nHost: x\r\n\r\n")
	l.frames <- frames("first")[0]
	r := bufio.NewReader(l.answer())
	for line := ""; line != "event: text\n"; {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatalf("got %v, want the event before the stream is parked", err)
		}
	}
	if err := <-l.returned; err != nil {
		t.Fatal(err)
	}
	l.frames <- frames("first", "second")[1]
	close(l.frames)
	if got := l.all(r); strings.Count(got, "event: text\n") != 1 || !strings.Contains(got, "second") {
		t.Errorf("got %q, want the second event", got)
	}
}

func TestStreamReleasesBufferOfLargeEvent(t *testing.T) {
	const large = 4 << 20
	l := open(t)
	r := l.parked()
	before := heap()
	l.frames <- event.Frame{
		Incarnation: "x", First: 1, Names: []event.Name{event.NameText}, Lines: []byte(strings.Repeat("x", large) + "\n"),
	}
	if n, err := io.CopyN(io.Discard, r, large); err != nil {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	var kept int64
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if kept = heap() - before; kept < large/4 { // the last bytes are read before they count as written
			break
		}
	}
	if kept >= large/4 {
		t.Errorf("a quiet stream keeps %d bytes of an event of %d", kept, large)
	}
	close(l.frames)
	l.all(r)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestConnectionOfADetachedStreamServesTheNextRequest(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{"sent when the stream has ended": false, "sent before that": true}
	for name, early := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			r := l.parked()
			const next = "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"
			if early {
				l.say(next)
			}
			close(l.frames)
			l.all(r)
			if !early {
				l.say(next)
			}
			if got := l.all(l.answer()); got != "plain" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestDisconnectOfADetachedStreamIsNoticed(t *testing.T) {
	t.Parallel()
	l := open(t)
	l.parked()
	if err := l.conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-l.ended; !errors.Is(err, stream.ErrDisconnected) {
		t.Errorf("got %v", err)
	}
}

func TestDrainEndsDetachedStreamsAndWaitsForThem(t *testing.T) {
	t.Parallel()
	l := open(t)
	r := l.parked()
	l.streamer.Drain()
	select {
	case err := <-l.ended:
		if !errors.Is(err, stream.ErrTruncated) || errors.Is(err, stream.ErrDisconnected) {
			t.Errorf("got %v", err)
		}
	default:
		t.Error("Drain has not waited")
	}
	body, err := io.ReadAll(r)
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the response looks whole: %v", err)
	}
	if !strings.Contains(string(body), ": draining\n") {
		t.Errorf("the client gets no error: %q", body)
	}
}

func TestRevokedKeyEndsDetachedStreams(t *testing.T) {
	t.Parallel()
	l := open(t)
	l.parked()
	l.streamer.Revoke("") // the key of a client without one
	if err := <-l.ended; !errors.Is(err, stream.ErrTruncated) {
		t.Errorf("got %v", err)
	}
}

func TestAConnectionThatIsToBeClosedIs(t *testing.T) {
	t.Parallel()
	l := open(t)
	l.say("GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	l.frames <- frames("first")[0]
	r := l.answer()
	<-l.returned
	close(l.frames)
	l.all(r)
	if _, err := l.in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is open: %v", err)
	}
}

func TestStreamThatCannotBeDetachedIsServedByItsHandler(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"HTTP/1.0, which has no chunks":    "GET /stream HTTP/1.0\r\nHost: x\r\n\r\n",
		"a body of which no part was read": "GET /stream HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
	}
	for name, request := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			l.say(request)
			l.frames <- frames("first")[0]
			r := l.answer()
			l.frames <- frames("first", "second")[1]
			select {
			case err := <-l.returned:
				t.Fatalf("the handler returned %v", err)
			case <-time.After(100 * time.Millisecond): // five times as long as it takes to be parked
			}
			close(l.frames)
			if got := l.all(r); strings.Count(got, "event: text\n") != 2 {
				t.Errorf("got %q", got)
			}
		})
	}
}
