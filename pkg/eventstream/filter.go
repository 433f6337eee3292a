package eventstream

import (
	"slices"
	"strings"
	"time"
)

// Filter says which events are meant: those that fit every member that is set. The zero value means all of them. It is
// the filter of S4 (types, streaming) and of S0 (prefix, session, time) in one.
type Filter struct {
	Types     []string // any of these
	Prefix    string   // what the type begins with, such as "tool_"
	SessionID string
	Since     time.Time // not before it
	Until     time.Time // before it
	Streaming bool      // only parts of something that is still being said
}

// Of returns the filter of events of these types. The type "*", or none, means all.
func Of(types ...string) Filter {
	if slices.Contains(types, Any) {
		return Filter{}
	}
	return Filter{Types: types}
}

// Any stands for every type (S0, on('*')).
const Any = "*"

// Match reports whether f means e.
func (f Filter) Match(e Event) bool {
	switch {
	case len(f.Types) > 0 && !slices.Contains(f.Types, e.Type),
		!strings.HasPrefix(e.Type, f.Prefix),
		f.SessionID != "" && f.SessionID != e.SessionID,
		!f.Since.IsZero() && e.Time.Before(f.Since),
		!f.Until.IsZero() && !e.Time.Before(f.Until),
		f.Streaming && !IsStreaming(e.Type):
		return false
	default:
		return true
	}
}

// streaming lists the types that say a part of what a later event says whole (S4, subscribeToStreamingEvents; the two
// deltas are those of S0).
var streaming = []string{
	"assistant_streaming_message", "assistant_streaming_thinking_message", "assistant_streaming_tool_call",
	"final_answer_streaming", "assistant_message_delta", "tool_execution_delta",
}

// IsStreaming reports whether events of the type are parts of something that a later event says whole.
func IsStreaming(kind string) bool { return slices.Contains(streaming, kind) }
