package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/cmd/chaos/internal/check"
	"github.com/agentbus/agentbus/cmd/chaos/internal/observer"
	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/cmd/chaos/internal/workload"
	"github.com/agentbus/agentbus/pkg/event"
)

// expireOf is whether everything expires after the load of a seed. Turns are two seeds long, so that one NATS node and
// three have theirs, and other seeds than those whose disks lose power.
func (o options) expireOf(seed uint64) bool {
	return o.expire == "yes" || o.expire == "both" && !(options{power: "both"}).powerOf(seed)
}

// late lets everything expire that a run has written, and repeats some of its posts.
func late(ctx context.Context, w *observer.Observer, crew workload.Users, run *check.Run) error {
	if err := w.Expire(ctx); err != nil {
		return fmt.Errorf("expiry: %w", err)
	}
	crew.Late(ctx, settled(run))
	return w.After(ctx, run)
}

// settled returns the posts that began a thread under a key, one of each, whose requests have ended and wait for nothing.
func settled(run *check.Run) []oplog.Entry {
	var posts []oplog.Entry
	seen := map[string]bool{}
	for _, e := range run.Entries {
		l := run.Logs[check.ID{Tenant: e.Tenant, Name: e.Request}]
		began := e.Op == oplog.Post && e.Status/100 == 2 && e.Key != "" && e.Agent != "" && e.Request != "" && len(e.Actions) == 0
		if !began || seen[e.Request] || l.Terminal() == "" {
			continue
		}
		asks := slices.ContainsFunc(l.Frames, func(f event.Frame) bool { return slices.Contains(f.Names, event.NameContinuation) })
		if seen[e.Request] = true; !asks && !seen[e.Thread] {
			seen[e.Thread] = true
			posts = append(posts, e)
		}
	}
	return posts
}
