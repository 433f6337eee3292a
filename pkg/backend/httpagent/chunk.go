package httpagent

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The types of chunks. A reader ignores those of later versions.
const (
	typeText         = "text"
	typeThinking     = "thinking"
	typeToolCall     = "tool_call"
	typeApproval     = "approval"
	typeQuestion     = "question"
	typeToolStarted  = "tool_started"
	typeToolProgress = "tool_progress"
	typeToolEnded    = "tool_ended"
	typeStep         = "step"
	typePlan         = "plan"
	typeCustom       = "custom"
	typeNotice       = "notice"
	typeSession      = "session"
	typeEnd          = "end"
	typeError        = "error"
)

const (
	maxSession = 32 << 10 // bytes of the session that an agent gives
	maxID      = 256      // bytes of an id that an agent gives
)

// chunk is one value of an answer: schemas/agent/chunk.json. The type says which members count.
type chunk struct {
	Type         string             `json:"type"`
	Delta        string             `json:"delta"`
	ID           string             `json:"id"`
	Name         string             `json:"name"`
	Args         json.RawMessage    `json:"args"`
	Question     string             `json:"question"`
	Status       event.ToolStatus   `json:"status"`
	Content      string             `json:"content"`
	Summary      string             `json:"summary"`
	Steps        []event.PlanStep   `json:"steps"`
	Data         json.RawMessage    `json:"data"`
	Message      string             `json:"message"`
	Retryable    bool               `json:"retryable"`
	Session      string             `json:"session"`
	FinishReason event.FinishReason `json:"finishReason"`
	Usage        event.Usage        `json:"usage"`
	Model        string             `json:"model"`
}

// reader turns the chunks of an answer into ours.
type reader struct {
	session *session
	agent   upstream.Agent
	emit    backend.Emit
	outcome backend.Outcome
	calls   []call
	running map[string]bool // tools of the agent, by its ids; false = ended
}

// call is a call that waits for its result until the next turn.
type call struct {
	id      string
	started bool // its arguments have begun
}

func newReader(s *session, agent upstream.Agent, emit backend.Emit) *reader {
	return &reader{session: s, agent: agent, emit: emit, running: map[string]bool{}}
}

// read reads the chunks of an answer to its end. The session counts as received by the agent with each turn.
func (r *reader) read(stream *upstream.Stream) error {
	if r.session.state.ID != "" {
		if err := r.emit(r.session.state); err != nil {
			return err
		}
	}
	for {
		var c chunk
		if err := stream.Decode(&c); err != nil {
			return err
		}
		c.Args, c.Data = present(c.Args), present(c.Data)
		ended, err := r.take(c)
		if ended || err != nil {
			return err
		}
	}
}

// present returns a value, nil for null.
func present(value json.RawMessage) json.RawMessage {
	if jsontext.Value(value).Kind() == 'n' {
		return nil
	}
	return value
}

// take emits what a chunk says, and reports whether it was the last.
func (r *reader) take(c chunk) (ended bool, err error) {
	switch c.Type {
	case typeText:
		err = r.delta(backend.TextDelta(c.Delta), c.Delta)
	case typeThinking:
		err = r.delta(backend.ThinkingDelta(c.Delta), c.Delta)
	case typeToolCall:
		err = r.toolCall(c)
	case typeApproval, typeQuestion:
		err = r.ask(c)
	case typeToolStarted, typeToolProgress, typeToolEnded:
		err = r.tool(c)
	case typeStep:
		err = r.emit(backend.Step{Usage: c.Usage, Model: c.Model})
	case typePlan:
		err = r.emit(backend.Plan{Steps: c.Steps})
	case typeCustom:
		err = r.custom(c)
	case typeNotice:
		err = r.delta(backend.Warning(c.Message), c.Message)
	case typeSession:
		err = r.state(c.Session)
	case typeEnd:
		return true, r.end(c)
	case typeError:
		r.outcome.Usage = c.Usage
		return true, r.agent.Failed(c.Message, c.Retryable)
	case "":
		err = r.agent.Broke("a chunk of its answer has no type")
	}
	return false, err
}

// delta emits a chunk, unless its text is empty.
func (r *reader) delta(c backend.Chunk, text string) error {
	if text == "" {
		return nil
	}
	return r.emit(c)
}

// toolCall begins a call of a tool of the request, or adds to its arguments.
func (r *reader) toolCall(c chunk) error {
	i := slices.IndexFunc(r.calls, func(known call) bool { return known.id == c.ID })
	if i < 0 {
		var err error
		if i, err = r.begin(c, ""); err != nil {
			return err
		}
	}
	args := c.Delta
	if len(c.Args) > 0 {
		args = string(c.Args)
	}
	return r.arguments(i, args)
}

// begin starts a call, and returns its index.
func (r *reader) begin(c chunk, gate backend.Gate) (int, error) {
	if err := r.identified(c); err != nil {
		return 0, err
	}
	i := len(r.calls)
	r.calls = append(r.calls, call{id: c.ID})
	if err := r.emit(backend.CallStart{Index: i, Name: c.Name, Gate: gate}); err != nil {
		return i, err
	}
	return i, r.emit(backend.CallSignature{Index: i, Signature: c.ID})
}

func (r *reader) arguments(i int, text string) error {
	if text == "" {
		return nil
	}
	r.calls[i].started = true
	return r.emit(backend.CallDelta{Index: i, Args: text})
}

// identified checks the id and name of a chunk that begins a call.
func (r *reader) identified(c chunk) error {
	switch {
	case c.ID == "" || len(c.ID) > maxID:
		return r.agent.Broke("a %s has an id of %d bytes; it must have 1 to %d", c.Type, len(c.ID), maxID)
	case c.Name == "":
		return r.agent.Broke("%s %q has no name", c.Type, c.ID)
	case len(c.Args) > 0 && jsontext.Value(c.Args).Kind() != '{':
		return r.agent.Broke("the arguments of %s %q are not an object", c.Type, c.ID)
	}
	return nil
}

// ask begins a call that a person decides, or answers.
func (r *reader) ask(c chunk) error {
	gate, args := backend.GateAgentApproval, string(c.Args)
	if c.Type == typeQuestion {
		text, err := jsonv2.Marshal(map[string]string{"question": c.Question})
		if err != nil {
			return fmt.Errorf("encode the agent's question: %w", err)
		}
		gate, c.Name, args = backend.GateInput, "ask_user", string(text)
	}
	if slices.ContainsFunc(r.calls, func(known call) bool { return known.id == c.ID }) {
		return r.agent.Broke("%s %q comes twice", c.Type, c.ID)
	}
	i, err := r.begin(c, gate)
	if err != nil {
		return err
	}
	return r.arguments(i, args)
}

// tool reports a tool that the agent runs.
func (r *reader) tool(c chunk) error {
	running, known := r.running[c.ID]
	switch {
	case c.Type != typeToolStarted && !running:
		return r.agent.Broke("%s has the id %q of a tool that does not run", c.Type, c.ID)
	case c.Type == typeToolProgress:
		return r.delta(backend.ToolProgress{ID: c.ID, Delta: c.Delta}, c.Delta)
	case c.Type == typeToolEnded:
		r.running[c.ID] = false
		if !slices.Contains([]event.ToolStatus{"", event.ToolSuccess, event.ToolFailed, event.ToolDenied, event.ToolAborted, event.ToolUnknown}, c.Status) {
			return r.agent.Broke("tool %q ended with the status %q", c.ID, c.Status)
		}
		return r.emit(backend.ToolEnded{ID: c.ID, Status: c.Status, Content: c.Content, Summary: c.Summary})
	case known:
		return r.agent.Broke("tool %q starts twice", c.ID)
	}
	if err := r.identified(c); err != nil {
		return err
	}
	r.running[c.ID] = true
	return r.emit(backend.ToolStarted{ID: c.ID, Name: c.Name, Args: c.Args})
}

func (r *reader) custom(c chunk) error {
	if _, err := event.NewCustom(c.Name, c.Data); err != nil {
		return r.agent.Broke("custom event: %v", err)
	}
	return r.emit(backend.Custom{Type: c.Name, Data: c.Data})
}

// state keeps the session that the agent gives.
func (r *reader) state(session string) error {
	if session == "" || len(session) > maxSession {
		return r.agent.Broke("its session has %d bytes; it must have 1 to %d", len(session), maxSession)
	}
	if session == r.session.state.ID {
		return nil
	}
	r.session.state = backend.State{ID: session, Used: r.session.state.Used}
	return r.emit(r.session.state)
}

// end ends the turn.
func (r *reader) end(c chunk) error {
	r.outcome.Usage = c.Usage
	if c.Model != "" {
		r.outcome.Model = c.Model
	}
	for i, known := range r.calls {
		if known.started {
			continue
		}
		if err := r.arguments(i, "{}"); err != nil {
			return err
		}
	}
	switch {
	case len(r.calls) > 0:
		r.outcome.Finish = event.FinishToolCalls
	case slices.Contains(finishReasons(), c.FinishReason):
		r.outcome.Finish = c.FinishReason
	default:
		r.outcome.Finish = event.FinishStop
	}
	return nil
}
