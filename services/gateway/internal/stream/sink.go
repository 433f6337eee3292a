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

// sink receives the bytes of a stream.
type sink interface {
	// write sends p now.
	write(p []byte) error
	// releaseBuffers frees buffers that an idle stream does not need.
	releaseBuffers()
	// setDeadline sets the deadline of the next writes.
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
		_ = s.setWriteDeadline(time.Time{}) // removes the deadline of earlier responses; the first write reports an error
	}
	return s
}

// write sends p. With HTTP/2 a deadline resets the stream when it passes, even if nothing is being written; therefore
// it is set for the time of the write only.
func (r *responseSink) write(p []byte) error {
	if !r.http2 {
		return r.flush(p)
	}
	if err := r.setWriteDeadline(r.until); err != nil {
		return err
	}
	if err := r.flush(p); err != nil {
		if !r.until.IsZero() && !time.Now().Before(r.until) {
			return errors.Join(os.ErrDeadlineExceeded, err) // HTTP/2 reports only that the stream is closed
		}
		return err
	}
	return r.setWriteDeadline(time.Time{})
}

func (r *responseSink) flush(p []byte) error {
	if _, err := r.Write(p); err != nil {
		return err
	}
	return ignoreUnsupported(r.control.Flush())
}

func (r *responseSink) setWriteDeadline(until time.Time) error {
	return ignoreUnsupported(r.control.SetWriteDeadline(until))
}

func (r *responseSink) releaseBuffers() {}

func (r *responseSink) setDeadline(until time.Time) error {
	if r.http2 {
		r.until = until
		return nil
	}
	return r.setWriteDeadline(until)
}

func ignoreUnsupported(err error) error {
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// connSink is the sink of a detached stream: a connection of HTTP/1.1 whose chunked response has started. Its zero
// value except for conn is ready to use. watch may run concurrently with the other methods, which are for one
// goroutine.
type connSink struct {
	conn    net.Conn
	server  *http.Server // the server of the connection; nil = the connection is closed at the end
	chunk   []byte       // buffer of write; at most maxChunk and its framing
	watcher sync.WaitGroup
	early   []byte // bytes that the client sent before the end of the response
}

// hijack takes over the connection of a response that has started. It returns nil if that is impossible: with HTTP/2,
// or if a part of the request's body may still arrive.
func hijack(w http.ResponseWriter, r *http.Request) *connSink {
	if r.ProtoMajor != 1 || r.ProtoMinor != 1 || r.Body != nil && r.Body != http.NoBody {
		return nil
	}
	hijacker, ok := unwrapWriter(w).(http.Hijacker)
	if !ok {
		return nil
	}
	conn, buffered, err := hijacker.Hijack()
	if err != nil {
		return nil // the server refuses, and continues to serve the response
	}
	s := &connSink{conn: conn, early: unread(buffered.Reader)}
	if !r.Close {
		s.server, _ = r.Context().Value(http.ServerContextKey).(*http.Server)
	}
	return s
}

// unwrapWriter returns the server's own response below those of middleware.
func unwrapWriter(w http.ResponseWriter) http.ResponseWriter {
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
	rest, _ := r.Peek(r.Buffered()) // not more than is buffered
	return append([]byte(nil), rest...)
}

// maxChunk limits the data of a chunk, which is a copy: a client that does not read holds up one chunk in addition to
// its data.
const maxChunk = 2 * flushAt

// write sends p as chunks (RFC 9112, 7.1). It writes nothing for an empty p, since an empty chunk is the last one.
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

// watch calls left when the client closes the connection. If the client sends data instead, which belongs to its next
// request, watch ends.
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
	_ = s.conn.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection, which is not read any more
	s.watcher.Wait()
}

// close closes the connection: without its last chunk the response is incomplete.
func (s *connSink) close() {
	_ = s.conn.Close() // there is no recipient for the error
	s.watcher.Wait()
}

// finish completes the response and returns the connection to its server, for the client's next request.
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
		return s.conn.Close() // the server accepts no more connections
	}
	return nil
}

// unreadConn returns the connection with bytes that were read too early before the rest.
func unreadConn(conn net.Conn, early []byte) net.Conn {
	if h, ok := conn.(*prefixedConn); ok && len(h.early) == 0 {
		conn = h.Conn // otherwise each stream on it would add one more wrapper
	}
	if len(early) == 0 {
		return conn
	}
	return &prefixedConn{Conn: conn, early: early}
}

// prefixedConn is a connection whose first bytes have been read already.
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

// errServed ends the Accept loop of singleListener.
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
