package projector

import (
	"context"
	"errors"
	"sort"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// longestHole is how many frames of one request are fetched at a time.
const longestHole = 1000

// heal fills holes from the stream instead of waiting for the missing frames: another process may have them and be slow
// or dead, or the stream may have forgotten them, so that they never come.
func (r *Projector) heal(ctx context.Context, entries []store.Entry, errs []error) error {
	holes := map[bus.LogID]store.Hole{} // of each request the widest
	var waiting []int
	var again []store.Entry
	for i, err := range errs {
		hole, ok := errors.AsType[*store.Hole](err)
		if !ok {
			continue
		}
		again, waiting = append(again, entries[i]), append(waiting, i)
		id := bus.LogID{Tenant: entries[i].Tenant, RequestID: entries[i].RequestID}
		if hole.Came >= holes[id].Came {
			holes[id] = *hole
		}
	}
	if len(waiting) == 0 {
		return nil
	}
	for id, hole := range holes {
		again = append(again, r.missing(ctx, id, hole)...)
	}
	results, err := r.put(ctx, again)
	if err != nil {
		return err
	}
	bySequence := map[uint64]error{}
	for i, e := range again {
		bySequence[e.Sequence] = results[i]
	}
	for _, i := range waiting {
		errs[i] = bySequence[entries[i].Sequence]
	}
	return nil
}

// missing reads the frames of a hole and the one after it. If the first of them have expired from the stream, the first
// remaining one is marked. On another error it returns the frames read so far: the hole stays, and the entry is
// delivered again.
func (r *Projector) missing(ctx context.Context, id bus.LogID, hole store.Hole) []store.Entry {
	found, err := r.read(ctx, id, hole.Next, hole.Came)
	if !errors.Is(err, bus.ErrExpired) {
		return found
	}
	from := hole.Next + uint64(sort.Search(int(hole.Came-hole.Next), func(i int) bool {
		_, err := r.read(ctx, id, hole.Next+uint64(i), 0)
		return !errors.Is(err, bus.ErrExpired)
	}))
	found, _ = r.read(ctx, id, from, hole.Came) // an error leaves a hole
	if len(found) == 0 || ctx.Err() != nil {
		return nil
	}
	r.log.WarnContext(ctx, "the stream forgot events before history stored them",
		telemetry.LogTenant, id.Tenant, telemetry.LogRequest, id.RequestID, "from", hole.Next, "to", from)
	found[0].Forgotten = true
	return found
}

// read returns the frames of a log from event n = from to the one that holds event to.
func (r *Projector) read(ctx context.Context, id bus.LogID, from, to uint64) ([]store.Entry, error) {
	var found []store.Entry
	for f, err := range r.stream.Read(ctx, id, from) {
		if err != nil {
			return found, err
		}
		found = append(found, store.Entry{
			Tenant: id.Tenant, RequestID: id.RequestID, Sequence: f.Sequence, Time: f.Time, Frame: &f,
		})
		if f.Next() > to || len(found) == longestHole {
			break
		}
	}
	return found, nil
}
