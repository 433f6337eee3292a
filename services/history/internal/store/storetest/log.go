package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/history/internal/store"
)

// Tenant is whose logs the suite writes.
const Tenant = "acme"

// start is when the first request is accepted; each request begins a minute later than the one before.
func start() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// Log is a request as the bus delivers it.
type Log struct {
	Tenant, ThreadID, RequestID string
	Owner                       string
	Index                       int
	Incarnation                 string
	Text                        string // what the user said
}

// NewLog is the log of the request with an index on a thread.
func NewLog(thread string, index int) Log {
	return Log{
		Tenant: Tenant, ThreadID: thread, RequestID: fmt.Sprintf("req_%s_%d", thread, index), Owner: "ada", Index: index,
		Incarnation: "i1", Text: fmt.Sprintf("question %d", index),
	}
}

func (l Log) at() time.Time { return start().Add(time.Duration(l.Index) * time.Minute) }

// Accepted is the record of the gateway.
func (l Log) Accepted() store.Entry {
	return store.Entry{
		Tenant: l.Tenant, ThreadID: l.ThreadID, RequestID: l.RequestID, Time: l.at(),
		Accepted: &record.Accepted{
			Tenant: l.Tenant, RequestID: l.RequestID, ThreadID: l.ThreadID, AgentID: "demo", Owner: l.Owner, At: l.at(),
			Request: event.AgentRequest{Messages: []event.InputMessage{event.UserText(l.Text)}},
		},
	}
}

// Thread is the record that puts the request on its thread.
func (l Log) Thread() store.Entry {
	return store.Entry{
		Tenant: l.Tenant, ThreadID: l.ThreadID, Time: l.at(),
		Thread: &record.Thread{
			ThreadID: l.ThreadID, Owner: l.Owner, AgentID: "demo", RequestID: l.RequestID, Index: l.Index, At: l.at(),
		},
	}
}

// Deleted is the record that ends the thread.
func (l Log) Deleted() store.Entry {
	e := l.Thread()
	e.Thread.Deleted = true
	return e
}

// Frame is a frame that starts at event first.
func (l Log) Frame(first uint64, bodies ...event.Body) store.Entry {
	f := event.Frame{Incarnation: l.Incarnation, Epoch: 1, First: first, Time: l.at()}
	var lines strings.Builder
	for i, body := range bodies {
		n := first + uint64(i)
		line, err := event.Encode(event.Event{
			ID: event.NewCursor(l.Incarnation, n), RequestID: l.RequestID,
			Time: l.at().Add(time.Duration(n) * time.Second), Body: body,
		})
		if err != nil {
			panic(err) // the suite's own bodies
		}
		f.Names = append(f.Names, body.Name())
		lines.Write(append(line, '\n'))
	}
	f.Lines = []byte(lines.String())
	return store.Entry{Tenant: l.Tenant, RequestID: l.RequestID, Time: f.Time, Frame: &f}
}

// Frames cuts bodies into frames of size events.
func (l Log) Frames(size int, bodies ...event.Body) []store.Entry {
	var entries []store.Entry
	for first := 0; first < len(bodies); first += size {
		entries = append(entries, l.Frame(uint64(first), bodies[first:min(first+size, len(bodies))]...))
	}
	return entries
}

// All is everything that the bus has of a request with an answer of n deltas.
func (l Log) All(n int) []store.Entry {
	return append([]store.Entry{l.Accepted(), l.Thread()}, l.Frames(3, l.Bodies(n)...)...)
}

// Bodies is a request's log whose answer comes in n deltas: n+7 events, the first a claim and the last done.
func (l Log) Bodies(n int) []event.Body {
	block := event.Block{MessageID: "msg_" + l.RequestID, BlockID: "b0"}
	stage := func(s event.Stage) event.Block {
		b := block
		b.Stage = s
		return b
	}
	bodies := []event.Body{
		event.Claim{Epoch: 1, Runner: "runner-1"},
		event.Input{ThreadID: l.ThreadID, AgentID: "demo", Messages: []event.InputMessage{event.UserText(l.Text)}},
		event.Metadata{ThreadID: l.ThreadID, AgentID: "demo"},
		event.Text{Block: stage(event.StageStart)},
	}
	var answer strings.Builder
	for i := range n {
		word := fmt.Sprintf("word%d ", i)
		answer.WriteString(word)
		bodies = append(bodies, event.Text{Block: stage(event.StageDelta), Delta: word})
	}
	return append(bodies,
		event.Text{Block: stage(event.StageStop), Text: answer.String()},
		event.ToolOutput{ToolCallID: "call_1", Status: event.ToolSuccess, Content: "secret"},
		event.Done{
			MessageID: block.MessageID, ThreadID: l.ThreadID, FinishReason: event.FinishStop,
			Content: []event.Content{{Type: event.ContentText, Text: answer.String()}},
			Usage:   event.Usage{InputTokens: 3, OutputTokens: int64(n)},
		},
	)
}
