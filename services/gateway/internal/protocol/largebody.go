package protocol

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// Limits of large bodies. A body is in memory several times while it is decoded, so few large ones are read at the same
// time; tenants take turns.
const (
	largeBody   = 4 << 20 // bytes from which on a body is large
	largeBodies = 3
	bodyWait    = 15 * time.Second
	bodyRate    = 256 << 10 // bytes of a large body that give a client another second
)

// awaitBody waits until the body may be read, if it is large. A body of unknown size counts as large if its route permits one.
func (x *Exchange) awaitBody() error {
	size := x.call.Request.ContentLength
	if most := x.host.maxBody(x.call.Route.MaxBody); size < 0 || size > most {
		size = most
	}
	if size <= largeBody || x.body != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(x.Context(), bodyWait)
	defer cancel()
	turn := x.host.bodies.Turn(x.call.Principal.Tenant)
	if err := turn.Take(ctx); err != nil {
		if x.Context().Err() != nil {
			return x.Context().Err()
		}
		f := apierr.Wrap(err, apierr.Unavailable, "too many large bodies are received at one time; try again, or send images and files by url")
		f.RetryAfter = 5 * time.Second
		return f
	}
	x.body = turn
	body := &pacedBody{
		ReadCloser: x.call.Request.Body, connection: http.NewResponseController(x.call.Writer),
		deadline: time.Now().Add(x.host.limits.bodyTime),
	}
	x.call.Request.Body = body
	return body.extend(0)
}

// pacedBody is a body whose client gets more time for each piece that it sends.
type pacedBody struct {
	io.ReadCloser

	connection *http.ResponseController
	deadline   time.Time
	pending    int // bytes that have not extended the deadline yet
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.pending += n; err != nil || b.pending < bodyRate {
		return n, err
	}
	seconds := b.pending / bodyRate
	b.pending -= seconds * bodyRate
	return n, b.extend(time.Duration(seconds) * time.Second)
}

func (b *pacedBody) extend(by time.Duration) error {
	b.deadline = b.deadline.Add(by)
	if err := b.connection.SetReadDeadline(b.deadline); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// leaveBody lets the next large body be read.
func (x *Exchange) leaveBody() {
	if x.body != nil {
		x.body.Leave(0)
		x.body = nil
	}
}
