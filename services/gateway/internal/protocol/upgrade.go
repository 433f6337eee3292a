package protocol

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
	"github.com/coder/websocket"
)

// bearerSubprotocol is the subprotocol that a web page offers before its API key, since it cannot set headers:
// new WebSocket(url, ["bearer", "ak_…"]). The server accepts it and does not repeat the key.
const bearerSubprotocol = "bearer"

const headerSubprotocol = "Sec-WebSocket-Protocol"

// BearerFromSubprotocol moves the API key of a web page from the subprotocols to the Authorization header. Authentication
// refuses a request that has both.
func BearerFromSubprotocol(h http.Header) {
	offered := strings.Join(h.Values(headerSubprotocol), ",")
	name, key, ok := strings.Cut(offered, ",")
	if !ok || strings.TrimSpace(name) != bearerSubprotocol {
		return
	}
	h.Set(headerSubprotocol, bearerSubprotocol)
	h.Add("Authorization", "Bearer "+strings.TrimSpace(key))
}

// ErrUpgradeRequired is the cause of the error of a request to a WebSocket route that does not ask for an upgrade.
var ErrUpgradeRequired = errors.New("no upgrade")

// Upgrade makes the exchange a WebSocket and runs serve in a goroutine. The error of serve determines the close status
// of the WebSocket. The route needs StreamLimit. If Upgrade returns an error, the exchange is unchanged.
func (x *Exchange) Upgrade(serve func(context.Context, *Socket) error) error {
	h, r := x.host, x.call.Request
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		x.SetHeader("Upgrade", "websocket")
		return apierr.Wrap(ErrUpgradeRequired, apierr.InvalidMessageFormat, "this is a WebSocket; connect to it with ws:// or wss://")
	}
	if err := x.call.CheckOrigin(r); err != nil {
		return err
	}
	if h.Streamer.Draining() {
		return apierr.New(apierr.Unavailable, "the gateway is shutting down; connect again")
	}
	s := &Socket{host: h, route: x.call.Route.Path, principal: x.Principal()}
	if !s.accept(x.call.Writer, r, h.maxBody(x.call.Route.MaxBody)) {
		return nil
	}
	slot := x.call.Slot
	slot.keep()
	if !h.Streamer.Track(r.Context(), s.principal.KeyID, func(ctx context.Context) {
		defer slot.release()
		s.run(ctx, serve)
	}) {
		slot.release()
		s.close(stream.ErrDraining)
	}
	return nil
}

// accept answers the handshake, and reports whether the WebSocket is open.
func (s *Socket) accept(w http.ResponseWriter, r *http.Request, most int64) bool {
	t := &hijackWriter{ResponseWriter: w}
	conn, err := websocket.Accept(t, r, &websocket.AcceptOptions{
		Subprotocols:       []string{bearerSubprotocol},
		InsecureSkipVerify: true, // CheckOrigin has compared scheme, host and port
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     func(context.Context, []byte) bool { return s.countControl() },
		OnPongReceived:     func(context.Context, []byte) { s.countControl() },
	})
	if err != nil {
		return false // Accept has written the response
	}
	conn.SetReadLimit(most)
	s.conn, s.net = conn, t.conn
	return true
}

// Buffers of a WebSocket, in bytes. They are small: most connections are idle, and most events are short.
const (
	readBuffer  = 512
	writeBuffer = 1 << 10
)

// hijackWriter hijacks the connection with small buffers, and keeps it.
type hijackWriter struct {
	http.ResponseWriter
	conn net.Conn
}

// WriteHeaderNow writes the status where the writer delays it until the first write; package websocket looks for it.
func (t *hijackWriter) WriteHeaderNow() {
	if w, ok := t.ResponseWriter.(interface{ WriteHeaderNow() }); ok {
		w.WriteHeaderNow()
	}
}

// Hijack implements http.Hijacker.
func (t *hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.conn = conn
	early, _ := buffered.Peek(buffered.Reader.Buffered()) // never more than is buffered
	r := bufio.NewReaderSize(bytes.NewReader(bytes.Clone(early)), max(readBuffer, len(early)))
	_, _ = r.Peek(len(early)) // so that it is buffered again
	return conn, bufio.NewReadWriter(r, bufio.NewWriterSize(conn, writeBuffer)), nil
}
