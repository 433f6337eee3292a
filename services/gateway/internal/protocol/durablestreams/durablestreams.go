// Package durablestreams is the read side of the Durable Streams Protocol 1.0: the log of a request, and the logs of a thread,
// as streams of JSON messages under /streams. Its codec is in package wire.
//
// A message is an event of the native protocol. The terminal event closes the stream of a request; the stream of a thread stays
// open until the thread is deleted.
package durablestreams

import (
	"net/http"
	"slices"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/durablestreams/wire"
)

// Server serves the protocol. It is safe for concurrent use.
type Server struct{ protocol.Services }

var _ protocol.Protocol = (*Server)(nil)

// New returns the protocol on the services of the gateway.
func New(s protocol.Services) *Server { return &Server{s} }

// Name implements protocol.Protocol.
func (*Server) Name() string { return "durablestreams" }

// EncodeError implements protocol.Protocol.
func (*Server) EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	return wire.Codec{}.EncodeError(e)
}

// Routes implements protocol.Protocol. The gateway answers the methods that write with 405.
func (s *Server) Routes() []protocol.Route {
	return slices.Concat(
		s.routes("/streams/:requestId", s.findRequest),
		s.routes("/streams/threads/:threadId", s.findThread),
	)
}

func (s *Server) routes(path string, find finder) []protocol.Route {
	return []protocol.Route{
		{
			Method: http.MethodGet, Path: path, Scope: auth.ScopeRead, Limit: protocol.StreamLimit, Untimed: true,
			Serve: func(x *protocol.Exchange) error { return s.get(x, find) },
		},
		{
			Method: http.MethodHead, Path: path, Scope: auth.ScopeRead,
			Serve: func(x *protocol.Exchange) error { return s.head(x, find) },
		},
	}
}

// The headers of the protocol.
const (
	headerNextOffset = "Stream-Next-Offset"
	headerUpToDate   = "Stream-Up-To-Date"
	headerClosed     = "Stream-Closed"
	headerCursor     = "Stream-Cursor"
)

// head replies with the position after the last event.
func (s *Server) head(x *protocol.Exchange, find finder) error {
	_, end, err := find(x)
	if err != nil {
		return err
	}
	setPosition(x, end.at, false, end.closed)
	x.Write(http.StatusOK, wire.JSON, nil)
	return nil
}

// setPosition sets the headers that say where the response ends.
func setPosition(x *protocol.Exchange, next wire.Offset, upToDate, closed bool) {
	x.SetHeader("Cross-Origin-Resource-Policy", "same-origin")
	x.SetHeader(headerNextOffset, next.String())
	if upToDate {
		x.SetHeader(headerUpToDate, "true")
	}
	if closed {
		x.SetHeader(headerClosed, "true")
	}
}
