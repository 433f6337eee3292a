package eventstream

import "maps"

// Stats has the counters of a [Processor].
type Stats struct {
	Sent        uint64            // events that were stored, including trimmed ones
	Refused     uint64            // events that middleware dropped
	Trimmed     uint64            // events that were removed
	Kept        int               // events that are stored
	ByType      map[string]uint64 // of Sent; beyond a thousand types, the others under Any
	Subscribers []SubscriberStats // in the order of their subscription
}

// SubscriberStats has the counters of one subscriber.
type SubscriberStats struct {
	Filter    Filter
	Delivered uint64
	Dropped   uint64 // because its queue was full
	Panics    uint64 // of Delivered
	Waiting   int    // in its queue or handler
}

// Stats returns the counters.
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

// maxTypes bounds the types with a counter, since applications choose types.
const maxTypes = 1000

func newCounters() counters { return counters{byType: map[string]uint64{}} }

func (c *counters) add(kind string) {
	if _, known := c.byType[kind]; !known && len(c.byType) >= maxTypes {
		kind = Any
	}
	c.byType[kind]++
}
