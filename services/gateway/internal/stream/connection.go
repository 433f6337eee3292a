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
	flushAt           = 16 << 10             // bytes that are written even though more events are ready
	sendAfter         = 2 * time.Millisecond // that events wait for the next frame, which takes long where others read storage too
	keepBuffer        = 2 * flushAt          // bytes that are kept of a buffer for what is written next; a large event needs more
	writeTimeout      = 15 * time.Second     // for a client to take what is written; then it is cut, and resumes
	deadlineInterval  = 5 * time.Second      // how old a deadline may be when something is written: each costs a little
	drainWriteTimeout = 5 * time.Second      // the same when the gateway is about to end
	reconnectDelay    = 3 * time.Second      // before a client whose connection broke comes back, and up to a third more
)

// connection is one response.
type connection struct {
	status   http.ResponseWriter // nil once the stream is parked
	sink     sink
	enc      codec.Encoder
	meter    *metrics.Instruments
	began    time.Time
	renewed  time.Time // when the write deadline was
	wrote    time.Time // when something was written last; began before that
	buffer   []byte
	open     bool // the status is written
	first    bool // so is an event
	unsent   bool // buffer has events that wait for the next frame
	attached bool // the stream is parked already, or cannot be
}

// start writes the status, and what tells the client how to come back.
func (c *connection) start() {
	if c.open {
		return
	}
	c.open = true
	h := c.status.Header()
	h.Set("Content-Type", c.enc.ContentType())
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	c.status.WriteHeader(http.StatusOK)
	c.buffer = append(c.enc.AppendControl(nil, codec.Control{Retry: jitter(reconnectDelay, reconnectDelay/3)}), c.buffer...)
}

// add encodes a frame, a part at a time, so that a client that takes nothing holds up a part and not a frame of its own.
// More says that another frame is at hand, so that both can be written at once.
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
	if !c.first && len(c.buffer) > before {
		c.first = true
		c.meter.First(ctx, time.Since(c.began))
	}
	if more && len(c.buffer) < flushAt {
		c.unsent = true
		return nil
	}
	return c.write()
}

// releaseBuffers gives up the buffers of a connection that is quiet.
func (c *connection) releaseBuffers() {
	c.buffer = nil
	c.sink.releaseBuffers()
}

// end writes what is left to say when the frames have ended, with err.
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
	c.wrote = time.Now() // also for a format that has no heartbeat
	return c.write()
}

// write sends the buffer, and the status before it. A client that does not take it in time is an error.
func (c *connection) write() error {
	if len(c.buffer) == 0 && !c.open {
		return nil
	}
	c.start()
	if now := time.Now(); now.Sub(c.renewed) > deadlineInterval {
		if err := c.extendDeadline(now, writeTimeout); err != nil {
			return err
		}
	}
	if err := c.sink.write(c.buffer); err != nil {
		return writeError(err)
	}
	c.buffer, c.unsent = c.buffer[:0], false
	if cap(c.buffer) > keepBuffer {
		c.buffer = nil
	}
	c.wrote = time.Now()
	return nil
}

// extendDeadline gives the client until so long after now to take what is written.
func (c *connection) extendDeadline(now time.Time, limit time.Duration) error {
	c.renewed = now
	if err := c.sink.setDeadline(now.Add(limit)); err != nil {
		return errors.Join(errConnectionLost, err)
	}
	return nil
}

// writeError tells a client that left from one that is too slow.
func writeError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the client took nothing for %v: %w", writeTimeout, err)
	}
	return errors.Join(errConnectionLost, err)
}

// jitter returns base and up to spread more, so that clients who were cut together do not come back together.
func jitter(base, spread time.Duration) time.Duration {
	return base + rand.N(spread) //nolint:gosec // nobody gains from guessing it
}
