package codec

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// ToolOutput includes the output of tools: the deltas of tool_result, and tool_output.
const ToolOutput = string(event.NameToolOutput)

// extended includes every event that is not native.
const extended = "extended"

// Filter selects events of the native format: the native ones, and those that a client includes.
type Filter struct {
	all    bool
	names  []event.Name
	output func() bool // whether output of tools is sent; nil = no
}

// NewFilter returns the filter of Options.Include, or a *apierr.Error with InvalidMessageFormat.
func NewFilter(o Options) (Filter, error) {
	var w Filter
	for _, word := range o.Include {
		name := event.Name(word)
		switch {
		case word == ToolOutput && o.ToolOutput != nil:
			w.output = o.ToolOutput
		case word == extended:
			w.all = true
		case slices.Contains(event.Names(), name) && !name.IsInternal():
			w.names = append(w.names, name)
		default:
			return w, apierr.New(apierr.InvalidMessageFormat, "include=%.40s: use %q, %q, or names of %v", word, extended, ToolOutput, choices())
		}
	}
	return w, nil
}

// choices lists the valid values of include.
func choices() []event.Name {
	return slices.DeleteFunc(event.Names(), func(n event.Name) bool { return n.IsNative() || n.IsInternal() })
}

// Includes reports whether the client gets an event.
func (w Filter) Includes(line event.Line) bool {
	name := line.Name
	switch {
	case name == event.NameToolOutput:
		return w.output != nil && w.output()
	case name.IsInternal(), !name.IsNative() && !w.all && !slices.Contains(w.names, name):
		return false
	default:
		return w.output != nil && w.output() || !line.HasToolOutput()
	}
}
