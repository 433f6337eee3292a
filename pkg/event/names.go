package event

import (
	"encoding/json"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"
)

// Name says which event it is: the member "event" of its JSON, and the "event:" line of its SSE frame.
type Name string

// The nine events of the agent event protocol.
const (
	NameMetadata     Name = "metadata"
	NameText         Name = "text"
	NameThinking     Name = "thinking"
	NameToolCall     Name = "tool_call"
	NameToolResult   Name = "tool_result"
	NameDone         Name = "done"
	NameError        Name = "error"
	NameAborted      Name = "aborted"
	NameContinuation Name = "continuation"
)

// What other documents need, sent to native clients only when they ask for it.
const (
	NameInput       Name = "input"
	NameClaim       Name = "claim"
	NamePlan        Name = "plan"
	NameNotice      Name = "notice"
	NameFinalAnswer Name = "final_answer"
	NameUsage       Name = "usage"
	NameCustom      Name = "custom"

	NameContextCompressed Name = "context_compressed"

	NameSubagent Name = "subagent" // an event of an agent that this one has called
)

// What only models and runners read. It never leaves the services, except for the output of tools: see [Line.HasToolOutput].
const (
	NameToolOutput Name = "tool_output" // of a tool's result
	NameSummary    Name = "summary"     // of what a conversation has outgrown

	NameAgentSession Name = "agent_session" // of an agent that keeps one
)

// decoders is the list of events: a new one is a struct, a name and a line here.
var decoders = map[Name]func(json.RawMessage) (Body, error){
	NameMetadata:     as[Metadata],
	NameText:         as[Text],
	NameThinking:     as[Thinking],
	NameToolCall:     as[ToolCall],
	NameToolResult:   as[ToolResult],
	NameDone:         as[Done],
	NameError:        as[Error],
	NameAborted:      as[Aborted],
	NameContinuation: as[Continuation],
	NameInput:        as[Input],
	NameClaim:        as[Claim],
	NamePlan:         as[Plan],
	NameNotice:       as[Notice],
	NameFinalAnswer:  as[FinalAnswer],
	NameUsage:        as[UsageSoFar],
	NameCustom:       as[Custom],
	NameToolOutput:   as[ToolOutput],
	NameSummary:      as[Summary],

	NameContextCompressed: as[ContextCompressed],
	NameSubagent:          as[Subagent],
	NameAgentSession:      as[AgentSession],
}

func as[B Body](rest json.RawMessage) (Body, error) {
	var b B
	err := jsonv2.Unmarshal(rest, &b)
	return b, err
}

var native = []Name{
	NameMetadata, NameText, NameThinking, NameToolCall, NameToolResult, NameDone, NameError, NameAborted, NameContinuation,
}

// Names lists every event, sorted.
func Names() []Name {
	all := make([]Name, 0, len(decoders))
	for name := range decoders {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// Native lists the nine events of the agent event protocol (Exports, EVENT_TYPES), in its order.
func Native() []Name { return slices.Clone(native) }

// IsNative reports whether the event belongs to the agent event protocol, so that all clients handle it.
func (n Name) IsNative() bool { return slices.Contains(native, n) }

// IsInternal reports whether the event must not leave the services, whatever a client asks for.
func (n Name) IsInternal() bool {
	return n == NameToolOutput || n == NameSummary || n == NameAgentSession
}

// IsTerminal reports whether the event is the last of its request.
func (n Name) IsTerminal() bool { return n == NameDone || n == NameError || n == NameAborted }
