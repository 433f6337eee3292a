package transcript

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// session is one that an agent keeps by itself.
type session struct {
	state backend.State
	known int // number of the thread's contributions that the session has received
}

// Session returns the state that resumes the agent's session on the thread; zero without one.
func (s *State) Session() backend.State {
	if kept := s.agents[s.request.agent]; kept != nil {
		return kept.state
	}
	return backend.State{}
}

// Known returns how many messages, from the first on, the session has received.
func (s *State) Known() int {
	kept := s.agents[s.request.agent]
	if kept == nil || kept.known == 0 {
		return 0
	}
	return len(s.summary.messages()) + len(s.contributions(s.entries[:kept.known]))
}

// session folds an agent's session event. A new session has received nothing until a turn of it has ended.
func (s *State) session(b event.AgentSession) {
	if s.agents == nil {
		s.agents = make(map[string]*session)
	}
	kept := s.agents[s.request.agent]
	if kept == nil || kept.state.ID != b.SessionID {
		kept = new(session)
		s.agents[s.request.agent] = kept
	}
	kept.state = backend.State{ID: b.SessionID, Used: b.Used}
	s.request.session, s.request.begun = true, true
	s.request.running = b.Running
	if !b.Settled {
		return
	}
	s.endTurn() // what the agent has said so far is not said again
	for i := range s.request.open {
		s.request.open[i].unsettled = 0
	}
}

// Running is a tool that the request's agent has gone on with since the runner died that followed it.
type Running struct {
	Block            // the open result
	AgentID   string // of the call, as the agent names it
	Deltas    int    // that the result has
	Unsettled int    // of these, those that the agent will repeat
}

// Running lists the tools that the request's agent keeps running without a follower, as the newest settled session says.
func (s *State) Running() (running []Running) {
	for _, t := range s.request.running {
		i := slices.IndexFunc(s.request.open, func(b Block) bool {
			return b.Kind == event.NameToolResult && b.CallID == t.ToolCallID
		})
		if i < 0 {
			continue
		}
		b := s.request.open[i]
		running = append(running, Running{Block: b, AgentID: t.ID, Deltas: b.deltas, Unsettled: b.unsettled})
	}
	return running
}

// ByAgent reports whether a call of the request is one that the agent ran by itself.
func (s *State) ByAgent(callID string) bool {
	return slices.ContainsFunc(s.request.blocks, func(b Block) bool {
		return b.Kind == event.NameToolCall && b.CallID == callID && b.Inside && b.Gate == ""
	})
}

// markReceived marks all contributions as received by the agent's session.
func (s *State) markReceived() {
	if kept := s.agents[s.request.agent]; kept != nil && s.request.session {
		kept.known = len(s.entries)
	}
}
