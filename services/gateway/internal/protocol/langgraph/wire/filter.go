package wire

import (
	"slices"
	"strings"
)

// Filter is the body of POST …/stream/events: what the client wants of a thread.
type Filter struct {
	Channels   []string   `json:"channels"`
	Namespaces [][]string `json:"namespaces"`
	Depth      *int       `json:"depth"`
	Since      uint64     `json:"since"` // the sequence number after which the stream starts; 0 = it starts with the newest run
}

// Limits of a filter.
const (
	maxChannels   = 100
	maxNamespaces = 1000
)

// DecodeFilter reads the body of POST …/stream/events.
func DecodeFilter(body []byte) (f Filter, err error) {
	if err := Decode(body, &f); err != nil {
		return f, err
	}
	switch {
	case len(f.Channels) == 0 || len(f.Channels) > maxChannels:
		return f, invalid("channels must be a list of 1 to %d channels", maxChannels)
	case len(f.Namespaces) > maxNamespaces:
		return f, invalid("namespaces must be a list of at most %d namespaces", maxNamespaces)
	case f.Depth != nil && *f.Depth < 0:
		return f, invalid("depth must not be negative")
	case f.Since > maxSeq:
		return f, invalid("since must be the sequence number of an event")
	}
	for _, c := range f.Channels {
		if !slices.Contains(channels(), c) && !strings.HasPrefix(c, "custom:") {
			return f, invalid("channel %.40q does not exist; use %s, or custom:NAME", c, strings.Join(channels(), ", "))
		}
	}
	return f, nil
}

// The channels of a thread. Those of checkpoints and tasks are empty: an agent has no graph.
const (
	channelValues    = "values"
	channelUpdates   = "updates"
	channelMessages  = "messages"
	channelTools     = "tools"
	channelLifecycle = "lifecycle"
	channelInput     = "input"
	channelCustom    = "custom"
)

func channels() []string {
	return []string{
		channelValues, channelUpdates, channelMessages, channelTools, channelLifecycle, channelInput, channelCustom, "checkpoints", "tasks",
	}
}

// has reports whether the client wants events of a channel. All events are those of the root.
func (f Filter) has(channel, name string) bool {
	root := len(f.Namespaces) == 0 || slices.ContainsFunc(f.Namespaces, func(n []string) bool { return len(n) == 0 })
	return root && (slices.Contains(f.Channels, channel) || name != "" && slices.Contains(f.Channels, channel+":"+name))
}

// channelModes are the stream modes of a run from which the channels are made: all of them whatever the client wants, since the
// numbers of the events must not depend on that.
func channelModes() Modes { return Modes{Values: true, Updates: true, Tools: true, Custom: true} }

// Sequence numbers order the events of a thread: the index of the request on the thread, the number of the event in its log, and
// the number of what the event has become. They are the same on all gateways, and exact in JavaScript.
const (
	partBits  = 7
	eventBits = 26
	indexBits = 53 - eventBits - partBits
	maxSeq    = 1<<53 - 1
)

// Position is a place in a thread.
type Position struct {
	Index int    // of the request
	N     uint64 // of the event
}

// PositionOf returns the place of the event with a sequence number.
func PositionOf(seq uint64) Position {
	return Position{Index: int(seq >> (eventBits + partBits)), N: seq >> partBits & (1<<eventBits - 1)}
}

// seq returns the sequence number of a part of an event; false if the thread is too long for it.
func (p Position) seq(part int) (uint64, bool) {
	if p.Index < 0 || p.Index >= 1<<indexBits || p.N >= 1<<eventBits || part >= 1<<partBits {
		return 0, false
	}
	return uint64(p.Index)<<(eventBits+partBits) | p.N<<partBits | uint64(part), true //nolint:gosec // not negative
}
