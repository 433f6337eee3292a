package record

import (
	"cmp"

	"github.com/agentbus/agentbus/pkg/event"
)

// Opening is what the log of a request starts with, after its first claim. provider and model are those of the agent's
// configuration.
func (a Accepted) Opening(provider, model string) []event.Body {
	return []event.Body{a.Input(), a.Metadata(provider, cmp.Or(a.Request.Context.Model, model))}
}

// Input is the event that holds what the request brought.
func (a Accepted) Input() event.Input {
	return event.Input{
		ThreadID: a.ThreadID, AgentID: a.AgentID,
		Messages: a.Request.Messages, ActionResults: a.Request.Context.ActionResults,
		History: a.History, Tools: a.Request.Tools, Options: a.Request.Options, System: a.System,
		Context: a.Request.Context.Extra.JSON(), Metadata: a.Note,
	}
}

// Metadata is the event with which clients see the request begin.
func (a Accepted) Metadata(provider, model string) event.Metadata {
	return event.Metadata{
		ThreadID: a.ThreadID, AgentID: a.AgentID, ProtocolVersion: event.Protocol, Provider: provider, Model: model,
	}
}

// Input is the event that the steer becomes in the log of its request.
func (s Steer) Input(threadID, agentID string) event.Input {
	return event.Input{ThreadID: threadID, AgentID: agentID, SteerID: s.SteerID, Messages: s.Messages}
}
