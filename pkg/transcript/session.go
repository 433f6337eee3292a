package transcript

import (
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// session is one that an agent keeps by itself.
type session struct {
	state backend.State
	known int // of the thread's contributions, those that it has heard
}

// Session is what it takes to resume the session that the request's agent keeps on the thread; zero when there is none.
func (s *State) Session() backend.State {
	if kept := s.agents[s.request.agent]; kept != nil {
		return kept.state
	}
	return backend.State{}
}

// Known counts the messages, from the first on, that this session has heard.
func (s *State) Known() int {
	kept := s.agents[s.request.agent]
	if kept == nil || kept.known == 0 {
		return 0
	}
	return len(s.summary.messages()) + len(s.contributions(s.entries[:kept.known]))
}

// session folds what an agent says of its session. A new one has heard nothing until a turn of it has ended.
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
	s.request.session = true
}

// told says that the agent's session has heard, or said, all that there is.
func (s *State) told() {
	if kept := s.agents[s.request.agent]; kept != nil && s.request.session {
		kept.known = len(s.entries)
	}
}
