// Package protocol defines the interface of client protocols, and the services that the gateway gives to them.
//
// A [Protocol] owns its routes, content types and headers, the decoding of requests and the encoding of responses,
// streams and errors. For each request, a route gets an [Exchange]: it accepts requests, follows logs, and writes the
// response as a stream, as one JSON value or as a WebSocket. Keys, quotas, rate limits, deadlines, CORS and traces
// belong to the gateway.
//
// To add a protocol, create a folder next to native and add one line to the list in services/gateway/protocols.go. Its
// codec must pass protocoltest.
package protocol

import (
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Protocol is one wire protocol. It is safe for concurrent use.
type Protocol interface {
	// Name identifies the protocol in errors, such as "native". It is unique.
	Name() string

	// Routes lists what the protocol serves. It is called once; no two protocols may serve the same method and path.
	Routes() []Route

	// EncodeError encodes the error that a route returned, or that the gateway returned in its place (a wrong key, too
	// many requests), as the body of an HTTP response. The gateway chooses the status.
	EncodeError(e codec.ErrorResponse) (contentType string, body []byte)
}

// Route is one method and path of a protocol.
type Route struct {
	Method string
	Path   string // variable segments begin with ':', a last one that matches the rest with '*'

	Scope   auth.Scope // that an API key needs; "" = the route needs no key
	Body    bool       // Serve reads the body; otherwise the body is discarded before Serve
	MaxBody int64      // in bytes; 0 = gateway.maxBody
	Limit   Limit
	// Untimed lets Serve run longer than [Timeout]. It bounds what precedes a stream with [Exchange.WithTimeout].
	Untimed bool
	// BearerSubprotocol accepts the API key as the second subprotocol of a WebSocket, since web pages cannot set headers:
	// new WebSocket(url, ["bearer", "ak_…"]).
	BearerSubprotocol bool

	// Cookie accepts the cookie of a login in place of the API key, from a page of the gateway's own origin: for routes that
	// the page uses. Requests with an effect need an Origin header.
	Cookie bool

	// Serve writes the response, or returns an error before it has written anything. EncodeError encodes that.
	Serve func(*Exchange) error
}

// Limit is the limit of concurrent requests that a route counts against. All routes count against the rate limit.
type Limit int

const (
	NoLimit     Limit = iota
	StreamLimit       // open streams of a principal. Routes that call Stream or Upgrade need it.
	ListLimit         // large lists that are read at the same time, of a principal and of the process
)

// The headers of responses that are the same in all protocols.
const (
	HeaderRequestID   = "X-Request-Id"
	HeaderThreadID    = "X-Thread-Id"
	HeaderReplayed    = "Idempotency-Replayed"
	HeaderStreamReset = "X-Stream-Reset"
	HeaderStreamStart = "X-Stream-Start"
)
