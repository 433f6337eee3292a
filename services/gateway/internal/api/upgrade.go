package api

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
	"github.com/gin-gonic/gin"
)

// bearerProtocol is what a web page offers as a subprotocol, with its API key behind it, since it cannot send headers:
// new WebSocket(url, ["bearer", "ak_…"]). It is agreed to; the key is not repeated.
const bearerProtocol = "bearer"

const headerProtocol = "Sec-WebSocket-Protocol"

// keyOfPage puts the key of such a page where all others have it. One more than one is refused there.
func keyOfPage(c *gin.Context) {
	h := c.Request.Header
	offered := strings.Join(h.Values(headerProtocol), ",")
	name, key, ok := strings.Cut(offered, ",")
	if !ok || strings.TrimSpace(name) != bearerProtocol {
		return
	}
	h.Set(headerProtocol, bearerProtocol)
	h.Add("Authorization", "Bearer "+strings.TrimSpace(key))
}

// errNoUpgrade says that a client does not ask for a WebSocket where there is nothing else.
var errNoUpgrade = errors.New("no upgrade")

// Upgrade makes the call a WebSocket and has it served, by a goroutine, until serve returns; what serve returns decides
// how it is closed (see [Socket.close]). The endpoint must be long. An error means that there is no WebSocket.
func (c *Call) Upgrade(serve func(context.Context, *Socket) error) error {
	a, r := c.api, c.gin.Request
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		c.gin.Header("Upgrade", "websocket")
		return apierr.Wrap(errNoUpgrade, apierr.InvalidMessageFormat, "this is a WebSocket; connect to it with ws:// or wss://")
	}
	if err := a.origins.checkUpgrade(r); err != nil {
		return err
	}
	if a.Streamer.Draining() {
		return apierr.New(apierr.Unavailable, "the gateway is shutting down; connect again")
	}
	s := &Socket{api: a, route: c.gin.FullPath(), principal: c.Principal()}
	if !s.accept(c.gin.Writer, r, a.maxBody(c.gin)) {
		return nil
	}
	held, _ := c.gin.MustGet(keyPlace).(*place)
	held.taken = true
	if !a.Streamer.Track(r.Context(), s.principal.KeyID, func(ctx context.Context) {
		defer held.leave()
		s.run(ctx, serve)
	}) {
		held.leave()
		s.close(stream.ErrDraining)
	}
	return nil
}

// accept answers the handshake, and reports whether there is a WebSocket now.
func (s *Socket) accept(w gin.ResponseWriter, r *http.Request, most int64) bool {
	t := &tap{ResponseWriter: w}
	conn, err := websocket.Accept(t, r, &websocket.AcceptOptions{
		Subprotocols:       []string{bearerProtocol},
		InsecureSkipVerify: true, // of the origin: checkUpgrade has looked at scheme, host and port
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     func(context.Context, []byte) bool { return s.control() },
		OnPongReceived:     func(context.Context, []byte) { s.control() },
	})
	if err != nil {
		return false // it has told the client why
	}
	conn.SetReadLimit(most)
	s.conn, s.net = conn, t.conn
	return true
}

// Buffers of a WebSocket, in bytes. Most of the time there is nothing to read, and most events are small.
const (
	readBuffer  = 512
	writeBuffer = 1 << 10
)

// tap takes the connection over with small buffers, and keeps it.
type tap struct {
	gin.ResponseWriter
	conn net.Conn
}

// Hijack implements http.Hijacker.
func (t *tap) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := t.ResponseWriter.Hijack()
	if err != nil {
		return nil, nil, err
	}
	t.conn = conn
	early, _ := buffered.Peek(buffered.Reader.Buffered()) // never more than there is
	r := bufio.NewReaderSize(bytes.NewReader(bytes.Clone(early)), max(readBuffer, len(early)))
	_, _ = r.Peek(len(early)) // so that it is buffered again
	return conn, bufio.NewReadWriter(r, bufio.NewWriterSize(conn, writeBuffer)), nil
}
