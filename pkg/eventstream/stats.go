package eventstream

import "maps"

// Stats counts what a [Processor] has done (S4, debugging).
type Stats struct {
	Sent        uint64            // events that were kept, also those that have been forgotten since
	Refused     uint64            // events that the middleware dropped
	Trimmed     uint64            // events that were forgotten
	Kept        int               // events that are there
	ByType      map[string]uint64 // of Sent; beyond a thousand types, the others under Any
	Subscribers []SubscriberStats // in the order in which they came
}

// SubscriberStats counts what came of the events for one subscriber.
type SubscriberStats struct {
	Filter    Filter
	Delivered uint64
	Dropped   uint64 // its queue was full
	Panics    uint64 // of Delivered
	Waiting   int    // in its queue, or being handled
}

// Stats counts what was done until now.
func (p *Processor) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	stats := Stats{
		Refused: p.count.refused, Trimmed: p.count.trimmed, Kept: len(p.events), ByType: maps.Clone(p.count.byType),
	}
	for _, n := range stats.ByType {
		stats.Sent += n
	}
	for _, s := range p.subscribers {
		count := s.count
		count.Waiting = s.pending
		stats.Subscribers = append(stats.Subscribers, count)
	}
	return stats
}

type counters struct {
	refused, trimmed uint64
	byType           map[string]uint64
}

// maxTypes bounds what is counted apart: applications name types as they like.
const maxTypes = 1000

func newCounters() counters { return counters{byType: map[string]uint64{}} }

func (c *counters) add(kind string) {
	if _, known := c.byType[kind]; !known && len(c.byType) >= maxTypes {
		kind = Any
	}
	c.byType[kind]++
}
