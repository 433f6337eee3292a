package tarko

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Projector converts the events of logs to a vocabulary. A session is a thread and a run is a request: the projector
// takes the requests of a thread one after the other, each from its first event. The result for an event depends only
// on earlier events of the same request. If deltas are missing, as in lists from history, only the increments are
// missing in the result. A projector serves one goroutine; create it with [NewProjector].
//
// Two properties hold even if a runner crashed:
//
//   - The increments with one messageId concatenate to the content of the final event with that id. If a runner crashed
//     within a text, that id has no final event, and the text starts again under another id.
//   - AgentRunEnd is last, and occurs once.
type Projector struct {
	vocabulary Vocabulary
	run        run

	event event.Event // the event to convert
	n     uint64      // its number in the log
	count int         // events made from it so far, including those that the vocabulary lacks
	out   []eventstream.Event
	err   error
}

// run is the state of a request.
type run struct {
	id        string
	session   string
	agent     string
	trace     string    // "" = unknown
	started   bool      // AgentRunStart was added
	startedAt time.Time // of its first event
	turnStart time.Time // when the model had all input of its turn
	input     Content
	turns     int
	message   message
	tools     map[string]ToolInfo // by name, of tools that were called
	outputs   map[string]event.ToolOutput
}

// NewProjector returns a projector to a vocabulary.
func NewProjector(v Vocabulary) *Projector { return &Projector{vocabulary: v} }

// Project converts e. The result is in order and belongs to the caller. The id of each event consists of the request,
// the number of e in its log, and a count, so that it is the same each time the log is read, from any position.
func (p *Projector) Project(e event.Event) ([]eventstream.Event, error) {
	_, n, err := event.ParseCursor(string(e.ID))
	if err != nil {
		return nil, fmt.Errorf("project %s event: %w", e.Body.Name(), err)
	}
	if e.RequestID != p.run.id {
		p.run = run{
			id: e.RequestID, startedAt: e.Time, turnStart: e.Time,
			tools: map[string]ToolInfo{}, outputs: map[string]event.ToolOutput{},
		}
	}
	p.event, p.n, p.count, p.out, p.err = e, n, 0, nil, nil
	p.fold(e.Body)
	return p.out, p.err
}

func (p *Projector) fold(body event.Body) {
	switch b := body.(type) {
	case event.Claim:
		p.run.turnStart, p.run.trace = p.event.Time, cmp.Or(p.run.trace, b.TraceID)
		return
	case event.Input:
		p.input(b)
		return
	case event.Metadata:
		p.startRun(b)
		return
	case event.ToolOutput:
		p.run.outputs[b.ToolCallID] = b
		return
	case event.Subagent, event.Unknown:
		return
	}
	if body.Name().IsInternal() {
		return
	}
	if !p.run.started {
		p.startRun(event.Metadata{})
	}
	switch b := body.(type) {
	case event.Text:
		p.textBlock(b.Block, block{kind: event.NameText, text: b.Text}, b.Delta)
	case event.Thinking:
		p.textBlock(b.Block, block{kind: event.NameThinking, text: b.Thinking}, b.Delta)
	case event.ToolCall:
		p.call(b)
	case event.UsageSoFar:
		p.endTurn(b)
	case event.ToolResult:
		p.result(b)
	case event.FinalAnswer:
		p.report(b)
	case event.Done, event.Error, event.Aborted:
		p.endRun(b)
	default:
		p.auxiliary(b)
	}
}

// input adds the messages and action results of a client.
func (p *Projector) input(b event.Input) {
	r := &p.run
	r.session, r.agent = cmp.Or(r.session, b.ThreadID), cmp.Or(r.agent, b.AgentID)
	r.turnStart = p.event.Time
	p.history(b)
	for _, m := range b.Messages {
		content := contentOf(m.Content, b.ThreadID)
		if !r.started {
			r.input = append(r.input, content...)
		}
		p.add(UserMessage{Content: content})
	}
	for _, a := range b.ActionResults {
		p.add(ActionResult{ActionID: a.ActionID, Status: string(a.Status), Result: a.Result, Error: a.Error})
	}
	for _, a := range b.ActionResults {
		text := decisionText(a)
		if text == "" {
			continue
		}
		details, _ := jsontext.AppendQuote([]byte(`{"actionId":`), a.ActionID) // an id is plain text
		p.add(System{Level: LevelInfo, Message: text, Details: append(details, '}')})
	}
}

// startRun adds the start of the run, which precedes all its other events.
func (p *Projector) startRun(b event.Metadata) {
	r := &p.run
	r.started = true
	r.session, r.agent = cmp.Or(r.session, b.ThreadID), cmp.Or(b.AgentID, r.agent)
	p.add(AgentRunStart{
		SessionID: r.session, RunOptions: RunOptions{Input: r.input, Stream: true},
		Provider: b.Provider, Model: b.Model, ModelDisplayName: b.Model, AgentName: r.agent,
	})
}

// auxiliary adds events that are not part of the answer.
func (p *Projector) auxiliary(body event.Body) {
	switch b := body.(type) {
	case event.Plan:
		p.plan(b)
	case event.Notice:
		p.add(System{Level: level(b.Level), Message: b.Message, Details: objectOrNil(b.Details)})
	case event.ContextCompressed:
		p.add(ContextCompressed{
			OriginalLength: b.OriginalLength, CompressedLength: b.CompressedLength,
			CompressionRatio: b.CompressionRatio, Strategy: b.Strategy,
		})
	case event.Continuation:
		p.action(b)
	case event.Custom:
		p.add(Custom{Name: Type(b.Type), Data: b.Data})
	}
}

// level returns the level of a notice. It is never error, because Tarko's clients treat that level as the end of the
// run.
func level(of string) string {
	if of == LevelInfo {
		return LevelInfo
	}
	return LevelWarning
}

func (p *Projector) plan(b event.Plan) {
	session := p.run.session
	if b.Stage == event.StageStart {
		p.add(PlanStart{SessionID: session})
	}
	if b.Stage == event.StageDelta || len(b.Steps) > 0 {
		steps := make([]PlanStep, 0, len(b.Steps))
		for _, s := range b.Steps {
			steps = append(steps, PlanStep(s))
		}
		p.add(PlanUpdate{SessionID: session, Steps: steps})
	}
	if b.Stage == event.StageStop {
		p.add(PlanFinish{SessionID: session, Summary: b.Summary})
	}
}

// add adds an event if the vocabulary has a type for it. It is counted in either case, so that ids do not depend on the
// vocabulary.
func (p *Projector) add(fact Payload) {
	k := p.count
	p.count++
	if p.vocabulary == Nested {
		fact = nested(fact)
	} else {
		fact = flat(fact)
	}
	if fact == nil || p.err != nil {
		return
	}
	data, err := jsonv2.Marshal(fact, marshalOptions)
	if err != nil {
		p.err = fmt.Errorf("project event %s of request %s: encode %s: %w", p.event.ID, p.run.id, fact.Type(), err)
		return
	}
	p.out = append(p.out, eventstream.Event{
		ID: p.id(k), Type: string(fact.Type()), Time: p.event.Time, SessionID: p.run.session, Data: data,
		Meta: eventstream.Meta{Source: source(fact), Version: eventstream.Version, TraceID: cmp.Or(p.run.trace, p.run.id)},
	})
}

func (p *Projector) id(k int) string {
	id := strconv.AppendUint(append([]byte(p.run.id), '-'), p.n, 10)
	if k > 0 {
		id = strconv.AppendInt(append(id, '.'), int64(k), 10)
	}
	return string(id)
}

// source returns the component that emitted an event (metadata.source of the Agent Protocol).
func source(fact Payload) string {
	switch fact.(type) {
	case UserMessage, ActionResult:
		return "client"
	case ToolExecutionStart, ToolExecutionDelta, ToolResult, FunctionResult:
		return "tool"
	default:
		return "agent"
	}
}

// marshalOptions escapes text so that it is safe within one line.
var marshalOptions = jsonv2.JoinOptions(jsontext.EscapeForJS(true), jsonv2.Deterministic(true))

// objectOrNil returns v if it is a JSON object, otherwise nil.
func objectOrNil(v json.RawMessage) json.RawMessage {
	if jsontext.Value(v).Kind() != jsontext.KindBeginObject {
		return nil
	}
	return v
}

// since returns the milliseconds between two events, by the clocks of their writers.
func since(from, to time.Time) int64 {
	if from.IsZero() {
		return 0
	}
	return max(to.Sub(from).Milliseconds(), 0)
}
