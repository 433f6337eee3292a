package transcript

import (
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// request is how far the newest request got.
type request struct {
	id        string
	agent     string
	session   bool // the agent has said what session it keeps
	begun     bool // the agent has said so in a turn that has not ended
	running   []event.AgentTool
	started   time.Time // of its first event
	spoken    bool      // a user message came, other than action results
	stalls    int       // claims since the last finished step that ended without a release
	held      bool      // the newest claim has not been released
	crashed   bool      // the newest claim took the request from a runner that had not released it
	crashes   int       // claims that did so
	steers    []string  // those that were read
	heard     bool      // one of them since the last turn
	nextBlock int
	open      []Block // started, not stopped
	turn      []Block // finished blocks of the turn that has not ended yet
	customs   []event.Custom
	described []string // tools that the log describes
	blocks    []Block  // finished blocks that count, results among them
	turns     int      // ended ones
	calls     int      // of the turn that ended last
	made      int      // until it ended
	inside    int      // likewise, those that the agent ran by itself
	finish    event.FinishReason
	usage     event.Usage // with that of all agents below
	below     map[string]*childRequest
	tried     []Try
	terminal  event.Name
	failure   apierr.Code
}

func (r *request) claim(b event.Claim) {
	if b.Released {
		r.held, r.stalls = false, max(r.stalls-1, 0)
		return
	}
	r.stalls++
	if r.held {
		r.crashes++
	}
	r.held, r.crashed = true, r.held
}

// Started is the time of the request's first event; zero when it has none.
func (s *State) Started() time.Time { return s.request.started }

// Spoken reports whether the request has a message of the user, other than action results.
func (s *State) Spoken() bool { return s.request.spoken }

// Terminal is the name of the request's terminal event; "" when it has none.
func (s *State) Terminal() event.Name { return s.request.terminal }

// Failure is the code of the error that the request ended with; "" when it ended otherwise, or has not.
func (s *State) Failure() apierr.Code { return s.request.failure }

// Actions lists what waits for a client, in the order of its first announcement.
func (s *State) Actions() []Action { return slices.Clone(s.actions) }

// Crashed reports whether the request was taken from a runner that did not hand it over.
func (s *State) Crashed() bool { return s.request.crashed }

// Crashes counts the runners of the request that ended without handing it over.
func (s *State) Crashes() int { return s.request.crashes }

// Steered reports whether the request has read a steer.
func (s *State) Steered(steerID string) bool { return slices.Contains(s.request.steers, steerID) }

// Stalls counts the claims since the request's last finished step, a turn or a tool's result. One whose runner handed the
// request over does not count.
func (s *State) Stalls() int { return s.request.stalls }

// NextBlock is the index of the request's next block.
func (s *State) NextBlock() int { return s.request.nextBlock }

// Turns counts the request's ended turns.
func (s *State) Turns() int { return s.request.turns }

// Usage is what the request's ended turns have used, and the agents that it has called.
func (s *State) Usage() event.Usage { return s.request.usage }

// Answered reports whether the last turn of the request ended without calls, and how: then the answer is complete, unless
// the user has said something since.
func (s *State) Answered() (event.FinishReason, bool) {
	r := s.request
	goesOn := r.session && r.finish == event.FinishToolCalls // by itself: its calls may not be known yet
	return r.finish, r.turns > 0 && r.calls == 0 && len(r.turn) == 0 && !r.heard && !goesOn
}

// Filtered reports whether the provider cut the last turn for its content, or the model refused to answer: its calls must
// not run.
func (s *State) Filtered() bool {
	return s.request.finish == event.FinishContentFilter || s.request.finish == event.FinishRefusal
}

// Open gives the request's blocks that started and did not stop, each with its text so far.
func (s *State) Open() []Block {
	open := slices.Clone(s.request.open)
	for i := range open {
		open[i].Text = string(open[i].partial)
	}
	return open
}

// OpenText is the text so far of one open block.
func (s *State) OpenText(blockID string) string {
	for _, b := range s.request.open {
		if b.ID == blockID {
			return string(b.partial)
		}
	}
	return ""
}

// Unfinished gives the finished blocks of a turn that has not ended, in the order of their indices.
func (s *State) Unfinished() []Block { return slices.Clone(s.request.turn) }

// Begun reports whether the agent has begun a turn in a session of its own, and the turn has not ended. A runner that takes
// the request over must finish that turn before it adds a message: an agent that continues by itself would not read it.
func (s *State) Begun() bool { return s.request.begun }

// Content lists the request's blocks that count, as done.content does. Thinking that the provider hides has nothing to list.
func (s *State) Content() []event.Content {
	content := make([]event.Content, 0, len(s.request.blocks))
	for _, b := range s.request.blocks {
		if b.Kind == event.NameThinking && b.Text == "" {
			continue
		}
		content = append(content, b.content())
	}
	return content
}

// Call is a tool call that has no result yet.
type Call struct {
	backend.Call
	Gate    event.ContinuationKind // who must act first, as the call's event says
	ByAgent bool                   // the agent runs it itself when a client has acted
	Invalid bool                   // its arguments were not a JSON object
	Action  *Action                // what was announced for it; nil = nothing
	Own     bool                   // made by the newest request
}

// Waiting lists the calls that need a result: those of the newest request, and those of earlier ones whose action is
// still open. Calls of an unfinished turn are excluded, since that turn will be repeated.
func (s *State) Waiting() []Call {
	var waiting []Call
	for _, e := range s.entries {
		for _, b := range e.blocks {
			if b.Kind != event.NameToolCall || b.Inside && b.Gate == "" || s.has(b.CallID) {
				continue
			}
			call := Call{
				Call: b.call(), Gate: b.Gate, ByAgent: b.Inside, Invalid: b.Reason == ReasonInvalid,
				Action: s.action(b.CallID), Own: e.requestID == s.request.id,
			}
			if call.Own || call.Action != nil {
				waiting = append(waiting, call)
			}
		}
	}
	return waiting
}

// Output is the result of a call, and whether there is one.
func (s *State) Output(callID string) (event.ToolOutput, bool) {
	output, ok := s.outputs[callID]
	return output, ok
}

func (s *State) has(callID string) bool {
	_, ok := s.outputs[callID]
	return ok
}

func (s *State) action(callID string) *Action {
	for _, a := range s.actions {
		if a.Payload.ToolCallID == callID {
			return &a
		}
	}
	return nil
}
