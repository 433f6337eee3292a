// Package transcript folds the events of a thread's requests into the state that an agent-runner needs: the
// conversation for the model, the calls without a result, the actions that wait for a client, and the progress of the
// newest request.
//
// It is pure. The same fold reads the thread's earlier requests, the log of a crashed runner at a takeover, and the
// events that the turn loop emits, so a runner that takes over has exactly the state of its predecessor.
package transcript

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// State is the fold of a thread's events. The zero value is a thread without events. It is not safe for concurrent use.
type State struct {
	entries []entry
	outputs map[string]event.ToolOutput // by tool call
	actions []Action                    // those without an output, in the order of their first announcement
	customs map[string]int              // custom events of calls without an output, since they have asked
	plan    event.Plan                  // the newest event of the thread's plan
	summary *summary                    // of the conversation before entries
	spoken  int64                       // tokens of the last turn, as the model counts them
	agents  map[string]*session         // those that agents keep by themselves, by agent
	request request                     // the newest one

	settings Settings // of the newest request
}

// entry is one contribution to the conversation: a message of the user, or one turn of the model. Results are kept by
// call id, because they may occur anywhere in the logs.
type entry struct {
	requestID string
	user      []backend.Part
	blocks    []Block
	refused   bool // a turn in which the model refused to answer; blocks may be empty
}

// fromUser reports whether e is a message of the user.
func (e entry) fromUser() bool { return len(e.blocks) == 0 && !e.refused }

// Action is something that a client must do before its call can have a result.
type Action struct {
	event.Continuation
	RequestID string              // the request that announced it last
	Answer    *event.ActionResult // what the client decided; nil = it still waits
}

// Fold adds events in the order of their logs: all of one request before the next one of the thread. Deltas may be
// missing, as they are in history's answers.
func (s *State) Fold(events ...event.Event) {
	for _, e := range events {
		s.fold(e)
	}
}

func (s *State) fold(e event.Event) {
	if e.RequestID != s.request.id {
		s.endTurn()
		s.dropAnswered()
		s.request = request{id: e.RequestID, started: e.Time}
	}
	switch b := e.Body.(type) {
	case event.Text:
		s.block(b.Block, Block{Kind: event.NameText, Text: b.Text, Signature: b.Signature}, b.Delta)
	case event.FinalAnswer:
		report := Block{Kind: event.NameFinalAnswer, Text: b.Content, Title: b.Title, Format: b.Format, Report: b.Kind}
		s.block(b.Block, report, b.Delta)
	case event.Thinking:
		s.block(b.Block, Block{Kind: event.NameThinking, Text: b.Thinking, Signature: b.Signature}, b.Delta)
	case event.ToolCall:
		s.block(b.Block, Block{
			Kind: event.NameToolCall, CallID: b.ToolCallID, Tool: b.Tool, Args: b.Args, Gate: b.Gate,
			Inside: b.ByAgent, Signature: b.Signature,
		}, b.Delta)
		s.describe(b)
	case event.ToolResult:
		if b.Stage != event.StageDelta {
			s.endTurn()
		}
		s.try(b)
		s.block(b.Block, Block{
			Kind: event.NameToolResult, CallID: b.ToolCallID, Tool: b.Tool, Status: b.Status, Summary: b.Summary,
			Media: b.Media,
		}, "")
	case event.ToolOutput:
		s.output(b)
	case event.Continuation:
		s.announce(e.RequestID, b)
	default:
		s.progress(b)
	}
}

// progress folds the events that say how far the request got.
func (s *State) progress(body event.Body) {
	r := &s.request
	switch b := body.(type) {
	case event.Claim:
		r.claim(b)
	case event.Input:
		s.input(b)
	case event.Plan:
		s.plan = b
	case event.Custom:
		s.custom(b)
	case event.AgentSession:
		s.session(b)
	case event.Summary:
		s.compress(b)
	case event.ContextCompressed:
		if s.summary != nil {
			s.summary.announced = true
		}
	case event.Subagent:
		r.stalls, r.usage = 0, r.usage.Add(nest(&r.below, b))
	case event.UsageSoFar:
		s.counted(b)
	case event.Error:
		r.failure = b.Code
		s.end(b)
	case event.Done, event.Aborted:
		s.end(b)
	}
}

func (s *State) end(body event.Body) {
	s.request.terminal = body.Name()
	s.endTurn()
	if body.Name() == event.NameDone {
		s.markReceived()
	}
	s.dropAnswered()
}

// counted folds the end of a turn.
func (s *State) counted(b event.UsageSoFar) {
	r := &s.request
	s.spoken = b.InputTokens + b.OutputTokens - r.usage.InputTokens - r.usage.OutputTokens
	r.turns, r.finish, r.usage, r.stalls, r.heard = b.Turns, b.FinishReason, b.Usage, 0, false
	r.begun = false
	made, inside := 0, 0
	for _, block := range r.blocks {
		switch {
		case block.Kind != event.NameToolCall:
		case block.Inside && block.Gate == "":
			inside++
		default:
			made++
		}
	}
	r.calls = made - r.made
	if b.FinishReason == event.FinishToolCalls { // an agent that is done has no more to do for its own calls
		r.calls += inside - r.inside
	}
	r.made, r.inside = made, inside
	before := len(s.entries)
	s.endTurn()
	if b.FinishReason == event.FinishRefusal {
		if len(s.entries) == before {
			s.entries = append(s.entries, entry{requestID: r.id})
		}
		s.entries[len(s.entries)-1].refused = true
	}
	if b.FinishReason != event.FinishToolCalls {
		s.markReceived()
	}
}

// input folds what a user said: at the start of the request, or as a steer in the midst of it.
func (s *State) input(b event.Input) {
	s.request.agent = b.AgentID
	if b.SteerID != "" {
		s.endTurn()
		s.request.steers = append(s.request.steers, b.SteerID)
		s.request.heard = true
	} else {
		s.settings = s.settings.next(b)
		s.importHistory(b.History)
	}
	for _, m := range b.Messages {
		s.request.spoken = true
		s.entries = append(s.entries, entry{requestID: s.request.id, user: userParts(m.Content)})
	}
	for _, result := range b.ActionResults {
		i := slices.IndexFunc(s.actions, func(a Action) bool { return a.ActionID == result.ActionID })
		if i >= 0 {
			s.actions[i].Answer = &result
		}
	}
}

func (s *State) output(b event.ToolOutput) {
	s.endTurn()
	s.request.stalls = 0
	if s.outputs == nil {
		s.outputs = make(map[string]event.ToolOutput)
	}
	s.outputs[b.ToolCallID] = b
	delete(s.customs, b.ToolCallID)
	s.actions = slices.DeleteFunc(s.actions, func(a Action) bool { return a.Payload.ToolCallID == b.ToolCallID })
}

func (s *State) announce(requestID string, b event.Continuation) {
	s.endTurn()
	delete(s.customs, b.Payload.ToolCallID) // the events that follow are those of its continuation
	action := Action{Continuation: b, RequestID: requestID}
	// A call waits for one action at a time: one that ran to an unknown end asks anew.
	i := slices.IndexFunc(s.actions, func(a Action) bool {
		return a.ActionID == b.ActionID || b.Payload.ToolCallID != "" && a.Payload.ToolCallID == b.Payload.ToolCallID
	})
	if i < 0 {
		s.actions = append(s.actions, action)
		return
	}
	s.actions[i] = action
}

// endTurn moves the blocks of the turn into the conversation. Whatever follows belongs to the model's next turn.
func (s *State) endTurn() {
	if len(s.request.turn) > 0 {
		s.entries = append(s.entries, entry{requestID: s.request.id, blocks: s.request.turn})
	}
	s.request.turn, s.request.customs = nil, nil
}

// dropAnswered forgets actions whose request ended between the client's decision and its effect: a decision counts once.
func (s *State) dropAnswered() {
	s.actions = slices.DeleteFunc(s.actions, func(a Action) bool { return a.Answer != nil })
}
