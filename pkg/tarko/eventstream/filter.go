package eventstream

import (
	"slices"
	"strings"
	"time"
)

// Filter selects the events that match every member that is set. The zero value selects all.
type Filter struct {
	Types     []string // any of these
	Prefix    string   // prefix of the type, such as "tool_"
	SessionID string
	Since     time.Time // not before it
	Until     time.Time // before it
	Streaming bool      // only events for which [IsStreaming] is true
}

// Of returns a filter of types; "*", or no type, selects all.
func Of(types ...string) Filter {
	if slices.Contains(types, Any) {
		return Filter{}
	}
	return Filter{Types: types}
}

// Any selects every type.
const Any = "*"

// Match reports whether f selects e.
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

// streaming lists the types whose content a later event repeats as a whole.
var streaming = []string{
	"assistant_streaming_message", "assistant_streaming_thinking_message", "assistant_streaming_tool_call",
	"final_answer_streaming", "assistant_message_delta", "tool_execution_delta",
}

// IsStreaming reports whether a later event repeats the content of events of a type as a whole.
func IsStreaming(kind string) bool { return slices.Contains(streaming, kind) }
