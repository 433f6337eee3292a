package tarko

import (
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/eventstream"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The finish reasons of a message that its run cut short.
const (
	FinishAbort = "abort"
	FinishError = "error"
)

// endRun tells the end of the run, and what was said until then.
func (p *Projector) endRun(body event.Body) {
	status := StatusIdle
	switch b := body.(type) {
	case event.Done:
		p.endMessage(string(b.FinishReason), event.UsageSoFar{})
		p.addLimitNotice(b.FinishReason)
	case event.Aborted:
		p.endMessage(FinishAbort, event.UsageSoFar{})
		status = StatusAborted
	case event.Error:
		p.endMessage(FinishError, event.UsageSoFar{})
		p.add(Error{Error: b.Message, Code: string(b.Code), Recoverable: b.Retryable})
		status = StatusFailed
	}
	r := &p.run
	p.add(AgentRunEnd{SessionID: r.session, Iterations: r.turns, ElapsedMs: since(r.startedAt, p.event.Time), Status: status})
}

// addLimitNotice tells of an answer that ends before the agent wanted to end it.
func (p *Projector) addLimitNotice(reason event.FinishReason) {
	var message string
	switch reason {
	case event.FinishMaxTurns:
		message = "The agent has reached its limit of turns and stops here."
	case event.FinishBudget:
		message = "The agent has used up its budget of tokens and stops here."
	default:
		return
	}
	p.add(System{Level: LevelWarning, Message: message, Details: jsontext.Value(`{"finishReason":"` + string(reason) + `"}`)})
}

// SessionStarted is the first event of a session (S0, session_start): no log has it, for a session begins before its
// first run. It is for the nested vocabulary alone, in a list or a stream of all that a session has.
func SessionStarted(sessionID, agent string, at time.Time) eventstream.Event {
	return sessionEvent(sessionID, at, SessionStart{SessionID: sessionID, AgentName: agent, Timestamp: at.UnixMilli()})
}

// SessionEnded is the last event of a session (S0, session_end): no log has it, for a session ends when it is deleted. It
// is for the nested vocabulary alone, in a stream that is open then.
func SessionEnded(sessionID string, started, at time.Time, messages int) eventstream.Event {
	return sessionEvent(sessionID, at, SessionEnd{SessionID: sessionID, Duration: since(started, at), MessageCount: messages})
}

func sessionEvent(sessionID string, at time.Time, p Payload) eventstream.Event {
	data, err := json.Marshal(p, marshalOptions)
	if err != nil {
		data = jsontext.Value("{}") // an id that is no UTF-8, which none is
	}
	return eventstream.Event{
		ID: sessionID + "-" + string(p.Type()), Type: string(p.Type()), Time: at, SessionID: sessionID, Data: data,
		Meta: eventstream.Meta{Source: "session", Version: eventstream.Version},
	}
}
