package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/metrics"
)

const (
	flushAt           = 16 << 10             // bytes that are written at once, even if more events are ready
	sendAfter         = 2 * time.Millisecond // how long events wait for the next frame, which may be delayed by other readers of storage
	maxIdleBuffer     = 2 * flushAt          // size of the buffer that is kept between writes; a large event needs more
	writeTimeout      = 15 * time.Second     // for a client to receive a write; after that it is disconnected, and resumes
	deadlineInterval  = 5 * time.Second      // age at which a deadline is set again; setting it for each write would be costly
	drainWriteTimeout = 5 * time.Second      // writeTimeout while the gateway drains
	reconnectDelay    = 3 * time.Second      // delay before a client reconnects; a third of it is added at random
)

// connection is one response.
type connection struct {
	status         http.ResponseWriter // nil once the stream is detached
	sink           sink
	enc            codec.Encoder
	meter          *metrics.Instruments
	startedAt      time.Time
	startBy        time.Time // when the status must be written; zero = with the first heartbeat
	deadlineSetAt  time.Time // when the write deadline was set
	lastWrite      time.Time // time of the last write; before startedAt without one
	buffer         []byte
	headersWritten bool // the status is written
	eventWritten   bool // an event is written
	unsent         bool // buffer has events that wait for the next frame
	attached       bool // the stream is detached already, or cannot be
}

// start writes the status, and the delay before a reconnect.
func (c *connection) start() {
	if c.headersWritten {
		return
	}
	c.headersWritten = true
	h := c.status.Header()
	h.Set("Content-Type", c.enc.ContentType())
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	c.status.WriteHeader(http.StatusOK)
	c.buffer = append(c.enc.AppendControl(nil, codec.Control{Retry: jitter(reconnectDelay, reconnectDelay/3)}), c.buffer...)
}

// add encodes a frame in parts, so that a client that does not read holds up a part and not a whole frame. more reports
// that another frame is available, so that both can be written at once.
func (c *connection) add(ctx context.Context, f event.Frame, more bool) error {
	for {
		part := f.Upto(flushAt)
		if len(part.Names) == len(f.Names) {
			return c.addPart(ctx, part, more)
		}
		if err := c.addPart(ctx, part, true); err != nil {
			return err
		}
		f = f.From(part.Next())
	}
}

func (c *connection) addPart(ctx context.Context, f event.Frame, more bool) error {
	before := len(c.buffer)
	var err error
	if c.buffer, err = c.enc.Append(c.buffer, f); err != nil {
		return fmt.Errorf("encode frame at %d: %w", f.First, err)
	}
	c.meter.Sent(ctx, len(f.Names))
	if !c.eventWritten && len(c.buffer) > before {
		c.eventWritten = true
		c.meter.First(ctx, time.Since(c.startedAt))
	}
	if more && len(c.buffer) < flushAt {
		c.unsent = true
		return nil
	}
	return c.write()
}

// releaseBuffers frees the buffers of an idle connection.
func (c *connection) releaseBuffers() {
	c.buffer = nil
	c.sink.releaseBuffers()
}

// end writes the rest of the response after the frames have ended with err.
func (c *connection) end(err error) error {
	c.start()
	var failed error
	if c.buffer, failed = AppendThreadDeleted(c.buffer, c.enc, err); failed != nil {
		return failed
	}
	return c.write()
}

// heartbeat keeps a quiet connection alive.
func (c *connection) heartbeat() error {
	c.start()
	c.buffer = c.enc.AppendControl(c.buffer, codec.Control{Comment: "heartbeat"})
	c.lastWrite = time.Now() // also for a format without a heartbeat
	return c.write()
}

// write sends the buffer, after the status. It fails if the client does not receive it in time.
func (c *connection) write() error {
	if len(c.buffer) == 0 && !c.headersWritten {
		return nil
	}
	c.start()
	if now := time.Now(); now.Sub(c.deadlineSetAt) > deadlineInterval {
		if err := c.extendDeadline(now, writeTimeout); err != nil {
			return err
		}
	}
	if err := c.sink.write(c.buffer); err != nil {
		return writeError(err)
	}
	c.buffer, c.unsent = c.buffer[:0], false
	if cap(c.buffer) > maxIdleBuffer {
		c.buffer = nil
	}
	c.lastWrite = time.Now()
	return nil
}

// extendDeadline sets the write deadline to limit after now, unless it was set recently.
func (c *connection) extendDeadline(now time.Time, limit time.Duration) error {
	c.deadlineSetAt = now
	if err := c.sink.setDeadline(now.Add(limit)); err != nil {
		return errors.Join(errConnectionLost, err)
	}
	return nil
}

// writeError distinguishes a client that has disconnected from one that is too slow.
func writeError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the client took nothing for %v: %w", writeTimeout, err)
	}
	return errors.Join(errConnectionLost, err)
}

// jitter returns base plus a random part of spread, so that clients that were disconnected together do not reconnect
// together.
func jitter(base, spread time.Duration) time.Duration {
	return base + rand.N(spread) //nolint:gosec // nobody gains from guessing it
}
