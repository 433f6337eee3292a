package tarko

import (
	"encoding/json"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	jsonv2 "github.com/go-json-experiment/json"
)

// The finish reasons of a message whose run ended early.
const (
	FinishAbort = "abort"
	FinishError = "error"
)

// endRun adds the message so far and the end of the run.
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
		p.add(Error{Error: b.Message, Code: string(b.Code), Recoverable: b.Retryable, Details: p.failureDetails(b)})
		status = StatusFailed
	}
	r := &p.run
	p.add(AgentRunEnd{SessionID: r.session, Iterations: r.turns, ElapsedMs: since(r.startedAt, p.event.Time), Status: status})
}

// failureDetails returns what a report of the failure needs: the request, and how far it came.
func (p *Projector) failureDetails(b event.Error) json.RawMessage {
	details, err := jsonv2.Marshal(struct {
		RequestID string       `json:"requestId"`
		Turns     int          `json:"turns"`
		Usage     *event.Usage `json:"usage,omitempty"`
	}{p.run.id, p.run.turns, b.Usage}, marshalOptions)
	if err != nil {
		return nil // not reached: ids are valid UTF-8
	}
	return details
}

// addLimitNotice adds a notice if a limit ended the answer.
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
	p.add(System{Level: LevelWarning, Message: message, Details: json.RawMessage(`{"finishReason":"` + string(reason) + `"}`)})
}

// SessionStarted returns the first event of a session (session_start of the Agent Protocol). It is not in a log,
// because a session exists before its first run. It is sent in the nested vocabulary only, by lists and streams of a
// whole session.
func SessionStarted(sessionID, agent string, at time.Time) eventstream.Event {
	return sessionEvent(sessionID, at, SessionStart{SessionID: sessionID, AgentName: agent, Timestamp: at.UnixMilli()})
}

// SessionEnded returns the last event of a session (session_end of the Agent Protocol). It is not in a log, because a
// session ends when it is deleted. It is sent in the nested vocabulary only, by streams that are open at that time.
func SessionEnded(sessionID string, started, at time.Time, messages int) eventstream.Event {
	return sessionEvent(sessionID, at, SessionEnd{SessionID: sessionID, Duration: since(started, at), MessageCount: messages})
}

func sessionEvent(sessionID string, at time.Time, p Payload) eventstream.Event {
	data, err := jsonv2.Marshal(p, marshalOptions)
	if err != nil {
		data = json.RawMessage("{}") // not reached: ids are valid UTF-8
	}
	return eventstream.Event{
		ID: sessionID + "-" + string(p.Type()), Type: string(p.Type()), Time: at, SessionID: sessionID, Data: data,
		Meta: eventstream.Meta{Source: "session", Version: eventstream.Version},
	}
}
