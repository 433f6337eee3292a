package stream

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// sink is where the bytes of a stream go.
type sink interface {
	// write sends p now.
	write(p []byte) error
	// releaseBuffers gives up what only a busy stream needs.
	releaseBuffers()
	// setDeadline sets until when the client may take what is written next.
	setDeadline(until time.Time) error
}

// responseSink is the sink of a stream that a handler serves.
type responseSink struct {
	http.ResponseWriter
	control *http.ResponseController
	http2   bool
	until   time.Time // the deadline of the next write; with HTTP/2 only
}

func newResponseSink(w http.ResponseWriter, r *http.Request) *responseSink {
	s := &responseSink{ResponseWriter: w, control: http.NewResponseController(w), http2: r.ProtoMajor == 2}
	if s.http2 {
		_ = s.arm(time.Time{}) // removes the deadline of other responses; the first write reports what is wrong
	}
	return s
}

// write sends p. With HTTP/2 a deadline resets its stream when it passes, also while nothing is written, so that it is set
// for the time of the write alone.
func (r *responseSink) write(p []byte) error {
	if !r.http2 {
		return r.flush(p)
	}
	if err := r.arm(r.until); err != nil {
		return err
	}
	if err := r.flush(p); err != nil {
		if !r.until.IsZero() && !time.Now().Before(r.until) {
			return errors.Join(os.ErrDeadlineExceeded, err) // HTTP/2 reports a stream that is closed
		}
		return err
	}
	return r.arm(time.Time{})
}

func (r *responseSink) flush(p []byte) error {
	if _, err := r.Write(p); err != nil {
		return err
	}
	return ignoreUnsupported(r.control.Flush())
}

func (r *responseSink) arm(until time.Time) error {
	return ignoreUnsupported(r.control.SetWriteDeadline(until))
}

func (r *responseSink) releaseBuffers() {}

func (r *responseSink) setDeadline(until time.Time) error {
	if r.http2 {
		r.until = until
		return nil
	}
	return r.arm(until)
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// connSink is the outlet of a stream that goes on without its handler: a connection of HTTP/1.1 whose chunked response has
// begun. Its zero value but for conn is ready. Watch runs beside the others, which are for one goroutine.
type connSink struct {
	conn    net.Conn
	server  *http.Server // that the connection came from; nil = it is closed at the end
	chunk   []byte       // kept from write to write; never longer than maxChunk and its frame
	watcher sync.WaitGroup
	early   []byte // what the client sent before its answer was complete
}

// hijack gives the connection of a response that has begun to the caller. It is nil where that cannot be done: not with
// HTTP/1.1, or while a part of the request's body may still come.
func hijack(w http.ResponseWriter, r *http.Request) *connSink {
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.Body != nil && r.Body != http.NoBody {
		return nil
	}
	hijacker, ok := innermost(w).(http.Hijacker)
	if !ok {
		return nil
	}
	conn, buffered, err := hijacker.Hijack()
	if err != nil {
		return nil // the server has its reasons, and goes on serving
	}
	s := &connSink{conn: conn, early: unread(buffered.Reader)}
	if !r.Close {
		s.server, _ = r.Context().Value(http.ServerContextKey).(*http.Server)
	}
	return s
}

// innermost is the server's own response, under what middleware has put around it.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}

func unread(r *bufio.Reader) []byte {
	if r.Buffered() == 0 {
		return nil
	}
	rest, _ := r.Peek(r.Buffered()) // never more than there is
	return append([]byte(nil), rest...)
}

// maxChunk is the most data of a chunk, which is a copy: a client that takes nothing holds up one chunk besides its data.
const maxChunk = 2 * flushAt

// write sends p as chunks (RFC 9112, 7.1); as none where p is empty, since an empty chunk is the last one.
func (s *connSink) write(p []byte) error {
	for part := range slices.Chunk(p, maxChunk) {
		s.chunk = strconv.AppendUint(s.chunk[:0], uint64(len(part)), 16)
		s.chunk = append(append(append(s.chunk, "\r\n"...), part...), "\r\n"...)
		if _, err := s.conn.Write(s.chunk); err != nil {
			return err
		}
	}
	return nil
}

func (s *connSink) releaseBuffers() { s.chunk = nil }

func (s *connSink) setDeadline(until time.Time) error { return s.conn.SetWriteDeadline(until) }

// watch calls left when the client closes the connection. A client that sends something instead is not watched any more:
// that belongs to its next request.
func (s *connSink) watch(left func()) {
	if len(s.early) > 0 {
		return
	}
	s.watcher.Go(func() { // ends with unwatch or close
		var first [1]byte
		n, err := s.conn.Read(first[:])
		s.early = append(s.early, first[:n]...)
		if n == 0 && err != nil {
			left()
		}
	})
}

// unwatch ends watch, unless the connection has ended already.
func (s *connSink) unwatch() {
	_ = s.conn.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection, which nobody reads from any more
	s.watcher.Wait()
}

// close cuts the response: without its last chunk it does not look whole.
func (s *connSink) close() {
	_ = s.conn.Close() // nobody is left to hear of it
	s.watcher.Wait()
}

// finish completes the response and gives the connection back to its server, for the client's next request.
func (s *connSink) finish() error {
	s.unwatch()
	_, err := io.WriteString(s.conn, "0\r\n\r\n")
	if err == nil {
		err = s.conn.SetDeadline(time.Time{})
	}
	if err != nil || s.server == nil {
		return errors.Join(err, s.conn.Close())
	}
	if err := s.server.Serve(&singleListener{conn: unreadConn(s.conn, s.early)}); !errors.Is(err, errServed) {
		return s.conn.Close() // the server takes no more connections
	}
	return nil
}

// unreadConn is the connection with what was read from it too early before the rest.
func unreadConn(conn net.Conn, early []byte) net.Conn {
	if h, ok := conn.(*prefixedConn); ok && len(h.early) == 0 {
		conn = h.Conn // else every stream on it would wrap it once more
	}
	if len(early) == 0 {
		return conn
	}
	return &prefixedConn{Conn: conn, early: early}
}

// prefixedConn is a connection from which something has been read already.
type prefixedConn struct {
	net.Conn
	early []byte
}

func (h *prefixedConn) Read(p []byte) (int, error) {
	if len(h.early) == 0 {
		return h.Conn.Read(p)
	}
	n := copy(p, h.early)
	h.early = h.early[n:]
	return n, nil
}

// errServed is how once ends.
var errServed = errors.New("the connection has been handed back")

// singleListener is a listener with one connection.
type singleListener struct{ conn net.Conn }

func (o *singleListener) Accept() (net.Conn, error) {
	if o.conn == nil {
		return nil, errServed
	}
	conn := o.conn
	o.conn = nil
	return conn, nil
}

func (o *singleListener) Close() error   { return nil }
func (o *singleListener) Addr() net.Addr { return nil }
