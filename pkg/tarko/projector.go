package tarko

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/eventstream"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Projector turns the events of a log into those of a vocabulary. A session is a thread and a run is a request, so it
// takes the requests of a thread one after the other, each from its first event on. What it says of an event depends on
// that request's events alone. Deltas may be missing, as they are in history's answers: then the increments are missing,
// and all else is the same. It is for one goroutine; [NewProjector] makes one.
//
// Two rules hold in what comes out, whatever happened to the runners of the request:
//
//   - The increments under one messageId concatenate to the content of the final event under that id (S4, messageId).
//     Where a runner died in the middle of a text, no final event comes under the id, and the text begins anew under
//     another one.
//   - An AgentRunEnd comes last, and once.
type Projector struct {
	vocabulary Vocabulary
	run        run

	event event.Event // the event that is told
	n     uint64      // its place in its log
	count int         // what has been told of it so far
	out   []eventstream.Event
	err   error
}

// run is what must be remembered of a request.
type run struct {
	id        string
	session   string
	agent     string
	trace     string    // "" = the log does not tell
	started   bool      // AgentRunStart is told
	startedAt time.Time // of its first event
	turnStart time.Time // the model has had all it needs for its turn since then
	input     Content
	turns     int
	message   message
	tools     map[string]ToolInfo // by name, of those that were called
	outputs   map[string]event.ToolOutput
}

// NewProjector returns a projector into a vocabulary.
func NewProjector(v Vocabulary) *Projector { return &Projector{vocabulary: v} }

// Project tells e. Its events are in their order and the caller's to keep. The id of each is made of the request, the
// place of e in its log, and a count, so it is the same whenever and from wherever the log is read.
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

// input tells what the user said and decided.
func (p *Projector) input(b event.Input) {
	r := &p.run
	r.session, r.agent = cmp.Or(r.session, b.ThreadID), cmp.Or(r.agent, b.AgentID)
	r.turnStart = p.event.Time
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
}

// startRun tells that the run starts, before anything that it does.
func (p *Projector) startRun(b event.Metadata) {
	r := &p.run
	r.started = true
	r.session, r.agent = cmp.Or(r.session, b.ThreadID), cmp.Or(b.AgentID, r.agent)
	p.add(AgentRunStart{
		SessionID: r.session, RunOptions: RunOptions{Input: r.input, Stream: true},
		Provider: b.Provider, Model: b.Model, ModelDisplayName: b.Model, AgentName: r.agent,
	})
}

// auxiliary tells what stands beside the answer.
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

// level is a notice's. The level error means the end to Tarko's clients, so it is left to the end.
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

// add adds an event in the projector's vocabulary, if that has a word for the fact. Facts are counted in either case, so
// that one fact has one id.
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
	data, err := json.Marshal(fact, marshalOptions)
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

// source is the component that an event comes from (S0, metadata.source).
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

// marshalOptions makes the text safe in one line anywhere.
var marshalOptions = json.JoinOptions(jsontext.EscapeForJS(true), json.Deterministic(true))

// objectOrNil is v if it is a JSON object, and nothing else.
func objectOrNil(v jsontext.Value) jsontext.Value {
	if v.Kind() != jsontext.KindBeginObject {
		return nil
	}
	return v
}

// since is the milliseconds from one event to another, by their writers' clocks.
func since(from, to time.Time) int64 {
	if from.IsZero() {
		return 0
	}
	return max(to.Sub(from).Milliseconds(), 0)
}
