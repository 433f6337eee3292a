package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// Stream reads the data of a request that the bus still has. It is implemented by *bus.Bus.
type Stream interface {
	Last(ctx context.Context, id bus.LogID) (event.Frame, error)
	Accepted(ctx context.Context, id bus.LogID) (record.Accepted, error)
	HasPointer(ctx context.Context, a record.Accepted) (bool, error)
	Incarnation() string
	Now() time.Time // by the clock that stamps entries
}

const (
	// closeEvery is the time between two looks of a closer.
	closeEvery = time.Hour
	// closeQuiet is how long nothing must have come of a request: runners see to those that the stream still holds.
	closeQuiet = time.Hour
	// closePage is how many requests are read at a time.
	closePage = 200
)

// Closer ends the requests that no process can end any more: those without an end in the store, all of whose messages
// have expired from the stream. Several closers may run concurrently.
type Closer struct {
	store     store.Reader
	stream    Stream
	projector *Projector
	log       *slog.Logger
}

// NewCloser returns a closer that stores with a projector.
func NewCloser(s store.Reader, stream Stream, r *Projector, log *slog.Logger) *Closer {
	return &Closer{store: s, stream: stream, projector: r, log: log}
}

// Run looks every hour, until ctx is done.
func (c *Closer) Run(ctx context.Context) {
	ticker := time.NewTicker(closeEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := c.Close(ctx); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "could not end all requests that the stream has forgotten; the next look comes", "error", err)
		}
	}
}

// Close runs one check. Requests that it cannot decide about stay unchanged.
func (c *Closer) Close(ctx context.Context) error {
	before := c.stream.Now().Add(-closeQuiet)
	var failed []error
	for after := (historyapi.RequestRef{}); ; {
		page, err := c.store.Open(ctx, before, after, closePage)
		if err != nil {
			return errors.Join(append(failed, err)...)
		}
		for _, r := range page {
			after = r.RequestRef
			if err := c.visit(ctx, r); err != nil {
				failed = append(failed, fmt.Errorf("request %s: %w", r.RequestID, err))
			}
		}
		if len(page) < closePage || ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
}

func (c *Closer) visit(ctx context.Context, r historyapi.OpenRequest) error {
	forgotten, err := c.forgotten(ctx, r)
	if err != nil || !forgotten {
		return err
	}
	held, err := c.store.Request(ctx, r.Tenant, r.RequestID)
	if err != nil {
		return err
	}
	frame, err := deletedRecord(r, held.Next, c.stream.Incarnation(), c.stream.Now())
	if err != nil {
		return err
	}
	errs, err := c.projector.put(ctx, []store.Entry{{Tenant: r.Tenant, RequestID: r.RequestID, Time: frame.Time, Frame: &frame}})
	if err != nil || errs[0] != nil {
		return errors.Join(err, errors.Join(errs...))
	}
	c.projector.announce()
	c.log.WarnContext(ctx, "history ended a request that the stream has forgotten", telemetry.LogTenant, r.Tenant, telemetry.LogRequest, r.RequestID)
	return nil
}

// forgotten reports whether the log of a request can no longer be written: the stream has neither the log, nor the
// accept record, nor a pointer with a copy of that record.
func (c *Closer) forgotten(ctx context.Context, r historyapi.OpenRequest) (bool, error) {
	id := bus.LogID{Tenant: r.Tenant, RequestID: r.RequestID}
	if _, err := c.stream.Last(ctx, id); !errors.Is(err, bus.ErrNotFound) {
		return false, err
	}
	if _, err := c.stream.Accepted(ctx, id); !errors.Is(err, bus.ErrNotFound) {
		return false, err
	}
	pointed, err := c.stream.HasPointer(ctx, record.Accepted{Tenant: r.Tenant, AgentID: r.AgentID, RequestID: r.RequestID})
	return !pointed, err
}

// deletedRecord is the terminal event of a request that was left open, as event n of its log.
func deletedRecord(r historyapi.OpenRequest, n uint64, incarnation string, now time.Time) (event.Frame, error) {
	e := apierr.New(apierr.StreamTimeout, "the request did not end in the time for which its log is kept; send it again")
	f := event.Frame{Incarnation: incarnation, First: n, Names: []event.Name{event.NameError}, Time: now}
	line, err := event.Encode(event.Event{
		ID: event.NewCursor(incarnation, n), RequestID: r.RequestID, Time: f.Time,
		Body: event.Error{ThreadID: r.ThreadID, Code: e.Code, Message: e.Message, Retryable: e.Retryable},
	})
	f.Lines = slices.Concat(line, []byte("\n"))
	return f, err
}
