package accept

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/command"
)

// maxLine bounds the records of a thread that are looked through for those that have not ended: whoever makes requests
// wait and aborts them, over and over, is told that the thread is busy.
const maxLine = 200

// place is a request that has not ended.
type place struct {
	bus.ThreadRecord
	accepted *command.Accepted // nil = it has begun
}

// line returns the requests of a thread that have not ended, in their order. The first one runs, or its turn has come;
// the others wait for it.
func (d *Desk) line(ctx context.Context, tenant string, newest bus.ThreadRecord) ([]place, error) {
	switch {
	case newest.RequestID == "":
		return nil, nil
	case newest.Behind == 0:
		return d.join(ctx, nil, tenant, newest)
	}
	var line []place
	for record, err := range d.bus.ThreadRecords(ctx, tenant, newest.ThreadID, 0) {
		if err != nil {
			return nil, err
		}
		if record.Index < newest.Index-newest.Behind {
			continue
		}
		if line, err = d.join(ctx, line, tenant, record); err != nil {
			return nil, err
		}
	}
	return line, nil
}

// join adds a record's request to the line, unless it has ended.
func (d *Desk) join(ctx context.Context, line []place, tenant string, record bus.ThreadRecord) ([]place, error) {
	log := bus.LogID{Tenant: tenant, RequestID: record.RequestID}
	last, err := d.bus.Last(ctx, log)
	switch {
	case err == nil && last.Terminal():
		return line, nil
	case err == nil:
		return append(line, place{ThreadRecord: record}), nil
	case !errors.Is(err, bus.ErrNotFound):
		return nil, err
	}
	accepted, err := d.bus.Accepted(ctx, log)
	if errors.Is(err, bus.ErrNotFound) {
		return line, nil // the stream has forgotten it, so it has ended
	}
	if err != nil {
		return nil, err
	}
	return append(line, place{record, &accepted}), nil
}

// urge points the runners at the request whose turn it is, unless somebody has begun it or its pointer waits for a free
// runner. That may have been lost, when a gateway or a runner died between two steps.
func (d *Desk) urge(ctx context.Context, line []place) error {
	if len(line) == 0 || line[0].accepted == nil {
		return nil
	}
	_, err := d.bus.EnsurePointer(ctx, *line[0].accepted, line[0].Index)
	return err
}

// start sees to it that a, which has its place on the thread now, runs when its turn comes. A runner that ends a request
// looks for the next one after its terminal event is stored, and this looks for the end after a's record is: so one of
// them sees the other, and points at a.
func (d *Desk) start(ctx context.Context, a command.Accepted, mine bus.ThreadRecord) error {
	if mine.Behind == 0 {
		return d.bus.Start(ctx, a, mine.Index)
	}
	line, err := d.line(ctx, a.Tenant, mine)
	if err != nil {
		return err
	}
	return d.urge(ctx, line)
}

// resume reports whether a, which was accepted before, is past the steps that Accept takes: it has a log, or a place on
// the thread. One that has its place is started, as far as it may be.
func (d *Desk) resume(ctx context.Context, newest bus.ThreadRecord, a command.Accepted) (bool, error) {
	_, err := d.bus.Last(ctx, logOf(a))
	if !errors.Is(err, bus.ErrNotFound) {
		return err == nil, err
	}
	placed := newest.RequestID == a.RequestID
	if !placed && newest.ThreadID != "" {
		for record, err := range d.bus.ThreadRecords(ctx, a.Tenant, a.ThreadID, 0) {
			if err != nil {
				return false, err
			}
			placed = placed || record.RequestID == a.RequestID
		}
	}
	if !placed {
		return false, nil
	}
	line, err := d.line(ctx, a.Tenant, newest)
	if err != nil {
		return false, err
	}
	return true, d.urge(ctx, line)
}

// Running returns the record of the request that runs on a thread, or whose turn has come; the newest one where all have
// ended.
func (d *Desk) Running(ctx context.Context, tenant string, newest bus.ThreadRecord) (bus.ThreadRecord, error) {
	line, err := d.line(ctx, tenant, newest)
	if err != nil || len(line) == 0 {
		return newest, err
	}
	return line[0].ThreadRecord, nil
}
