package responses

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// Limits of the output that a response repeats, in bytes.
const (
	maxStreamed = 1 << 20 // at the end of a stream, whose events have all of it: the newest items
	maxReplied  = 4 << 20 // as one value
)

// run turns the events of one log, in order and from the first one, into a response and its events.
type run struct {
	requestID string
	threadID  string
	response  Response
	begun     bool
	answers   []event.ActionResult // that the request has brought
	hidden    map[string]bool      // calls whose results the client gives, or that did not count
	open      []*entity
	items     int // that were opened
	sequence  int // of the next event
	limit     int // bytes of the output that are kept
	size      int // bytes that are kept
	truncated bool

	at  time.Time // of the event being projected
	out []Event
}

func newRun(limit int) *run {
	return &run{response: newResponse(), hidden: map[string]bool{}, limit: limit}
}

// add decodes an event, and projects it.
func (r *run) add(line event.Line) ([]Event, error) {
	if line.Name.IsInternal() {
		return nil, nil
	}
	e, err := event.Decode(line.JSON)
	if err != nil {
		return nil, fmt.Errorf("event %d: %w", line.N, err)
	}
	return r.project(e), nil
}

// project returns what an event becomes. Plans, notices, events of an application and the events of an agent that was called are
// not expressible.
func (r *run) project(e event.Event) []Event {
	r.at, r.out, r.requestID = e.Time, nil, cmp.Or(r.requestID, e.RequestID)
	switch b := e.Body.(type) {
	case event.Input:
		r.input(b)
	case event.Metadata:
		r.threadID, r.response.Model = cmp.Or(r.threadID, b.ThreadID), cmp.Or(r.response.Model, b.AgentID)
		r.begin()
	case event.Text:
		r.text(b.Block, b.Delta, b.Text, "")
	case event.FinalAnswer:
		r.text(b.Block, b.Delta, b.Content, "final_answer")
	case event.Thinking:
		r.thinking(b)
	case event.ToolCall:
		r.call(b)
	case event.ToolResult:
		r.result(b)
	case event.Continuation:
		r.action(b)
	case event.Done, event.Error, event.Aborted:
		r.end(b)
	}
	return r.out
}

// input reads what the request has brought. A steer changes nothing.
func (r *run) input(b event.Input) {
	if b.SteerID != "" || r.begun {
		return
	}
	r.threadID, r.answers = b.ThreadID, b.ActionResults
	r.response.describe(b)
	r.begin()
}

// begin writes the first events, once.
func (r *run) begin() {
	if r.begun {
		return
	}
	r.begun = true
	r.response.ID = ID(r.requestID)
	if r.response.CreatedAt == 0 {
		r.response.CreatedAt = seconds(r.at)
	}
	if r.response.Background {
		r.response.Status = statusQueued
		r.lifecycle(created)
		r.lifecycle(queued)
		r.response.Status = statusInProgress
	} else {
		r.lifecycle(created)
	}
	r.lifecycle(inProgress)
}

func seconds(t time.Time) int64 { return max(0, t.Unix()) }

// emit adds an event.
func (r *run) emit(e Event) {
	e.Sequence = r.sequence
	r.sequence++
	r.out = append(r.out, e)
}

// lifecycle adds an event that has the whole response.
func (r *run) lifecycle(kind string) {
	response := r.response
	r.emit(Event{Type: kind, Response: &response})
}

// end closes what is open, and writes the last event.
func (r *run) end(body event.Body) {
	r.begin()
	for len(r.open) > 0 {
		if e := r.open[0]; e.void {
			r.discard(e)
		} else {
			r.close(e, statusIncomplete)
		}
	}
	r.lifecycle(r.response.end(body, seconds(r.at)))
}

// snapshot returns the response as far as it is.
func (r *run) snapshot() Response {
	response := r.response
	response.Output = slices.Clone(r.response.Output)
	for _, e := range r.open {
		if e.void {
			continue
		}
		response.Output = append(response.Output, e.partial())
	}
	return response
}

// keep adds an item to the output of the response. The oldest ones are left out where the output would exceed the limit.
func (r *run) keep(item Item) {
	r.response.Output = append(r.response.Output, item)
	output := r.response.Output
	r.size += item.size()
	for r.size > r.limit && len(output) > 1 {
		r.size -= output[0].size()
		output, r.truncated = output[1:], true
	}
	r.response.Output = output
}
