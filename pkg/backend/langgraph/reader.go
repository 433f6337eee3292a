package langgraph

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// reader turns the events of a run into chunks. An event, or a message, that it has read before has no effect: a stream that is
// joined again may repeat some.
type reader struct {
	agent      upstream.Agent
	settleTime time.Duration
	turn       backend.Turn
	emit       backend.Emit
	outcome    backend.Outcome

	known    map[string]bool    // messages and calls of earlier turns, and of this turn before a crash
	answers  map[string]*answer // messages of the agent, by id
	answered []*answer          // in their order
	open     *answer            // whose text or thinking is open
	thinks   bool               // what is open is thinking
	calls    map[string]*call   // by id
	order    []*call            // in their order
	running  bool               // a call has started since the newest answer began

	partial    bool // the stream lacks a message that the state has
	interrupts []interrupt
	asked      int // calls of ours
}

// answer is a message of the agent that grows.
type answer struct {
	id       string
	text     string
	thinking string
	chunked  map[int]*call // calls whose arguments come in chunks, by index
	usage    event.Usage
	whole    bool // it has ended
	named    bool // its model is known
	long     bool // it has reached the limit of its length
}

// call is a tool call of the agent.
type call struct {
	id, name string
	args     []byte
	complete bool // its arguments are
	running  bool
	handled  bool // it has ended, or became a call of ours
}

func newReader(b *Backend, turn backend.Turn, emit backend.Emit) *reader {
	r := &reader{
		agent: b.agent, settleTime: b.settle, turn: turn, emit: emit, known: map[string]bool{}, answers: map[string]*answer{}, calls: map[string]*call{},
		outcome: backend.Outcome{Model: cmp.Or(turn.Model, b.assistant, "agent")},
	}
	calls := map[string]note{}
	for _, m := range turn.Messages {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Text:
				r.known[read(p.Signature).ID] = true
			case backend.Call:
				calls[p.ID] = read(p.Signature)
			case backend.Result: // a call that is denied runs later, if the user allows it
				if n := calls[p.ID]; n.Interrupt == "" && p.Status != event.ToolDenied {
					r.known[n.ID] = true
				}
			}
		}
	}
	delete(r.known, "")
	return r
}

// result is the outcome of the turn with the usage until now.
func (r *reader) result() backend.Outcome {
	r.outcome.Usage = event.Usage{}
	for _, a := range r.answered {
		r.outcome.Usage = r.outcome.Usage.Add(a.usage)
	}
	return r.outcome
}

// patience is how long to wait for the next event before complete calls count as running; 0 = without a limit.
func (r *reader) patience() time.Duration {
	if slices.ContainsFunc(r.order, (*call).waits) {
		return r.settleTime
	}
	return 0
}

func (c *call) waits() bool { return c.complete && !c.running && !c.handled }

// runID reads the event metadata.
func (r *reader) runID(data []byte) (string, error) {
	var m struct {
		RunID string `json:"run_id"`
	}
	if err := jsonv2.Unmarshal(data, &m); err != nil {
		return "", r.agent.API().Malformed(err)
	}
	if !id.Valid(m.RunID) {
		return "", r.agent.Broke("the id of its run is %.80q", m.RunID)
	}
	return m.RunID, nil
}

// take reads an event. The name of one of a sub-graph ends with its namespace. What a tool does inside is not the agent's answer.
func (r *reader) take(name string, data []byte) error {
	kind, namespace, _ := strings.Cut(name, "|")
	for segment := range strings.SplitSeq(namespace, "|") {
		if strings.HasPrefix(segment, "tools:") {
			return nil
		}
	}
	switch kind {
	case "messages":
		return r.tuple(data)
	case "updates":
		return r.updates(data)
	case "custom":
		return r.custom(data)
	case "error":
		return r.failed(data)
	}
	return nil
}

// failed is the error of a run.
func (r *reader) failed(data []byte) error {
	var e struct {
		Error   any    `json:"error"`
		Message string `json:"message"`
	}
	if err := jsonv2.Unmarshal(data, &e); err != nil {
		return r.agent.API().Malformed(err)
	}
	kind, _ := e.Error.(string)
	return r.agent.Failed(cmp.Or(e.Message, kind), false)
}

// tuple reads a message, or a part of one, and its metadata.
func (r *reader) tuple(data []byte) error {
	var pair []json.RawMessage
	if err := jsonv2.Unmarshal(data, &pair); err != nil || len(pair) == 0 {
		return r.agent.Broke("the event messages is not a list with a message")
	}
	m, ok := decodeMessage(pair[0])
	if !ok {
		return nil
	}
	if m.Type == typeAI { // servers in JavaScript name parts so, too
		m.Type = typeAIChunk
	}
	return r.message(m)
}

func (r *reader) message(m message) error {
	switch m.Type {
	case typeAIChunk:
		return r.chunk(m)
	case typeAI:
		return r.whole(m)
	case typeTool:
		return r.toolResult(m)
	}
	return nil
}

// updates reads what nodes have changed.
func (r *reader) updates(data []byte) error {
	var nodes map[string]json.RawMessage
	if err := jsonv2.Unmarshal(data, &nodes); err != nil {
		return r.agent.Broke("the event updates is not an object")
	}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if node == "__interrupt__" {
			r.interrupted(nodes[node])
			continue
		}
		var change struct {
			Messages json.RawMessage `json:"messages"`
			Todos    []todo          `json:"todos"`
		}
		if jsonv2.Unmarshal(nodes[node], &change) != nil {
			continue // a node of another state
		}
		if err := r.messages(change.Messages); err != nil {
			return err
		}
		if err := r.plan(change.Todos); err != nil {
			return err
		}
	}
	return nil
}

// messages reads a message, or a list of messages.
func (r *reader) messages(value json.RawMessage) error {
	list := []json.RawMessage{value}
	if jsontext.Value(value).Kind() == '[' && jsonv2.Unmarshal(value, &list) != nil {
		return nil //nolint:nilerr // a value of another form has no messages
	}
	for _, one := range list {
		if m, ok := decodeMessage(one); ok && m.ID == "" && m.Type != typeTool {
			r.partial = r.partial || m.Type != typeHuman // the server names it in the state
		} else if ok {
			if err := r.message(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// state reads what the stream may have lacked from the state of the thread, and returns why its run has failed.
func (r *reader) state(now state) (failure string, err error) {
	var values struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if jsonv2.Unmarshal(now.Values, &values) != nil {
		values.Messages = nil // a graph without messages
	}
	var fresh []message
	for _, one := range values.Messages {
		if m, ok := decodeMessage(one); ok && m.Type != typeHuman {
			fresh = append(fresh, m)
		} else {
			fresh = nil
		}
	}
	for _, m := range fresh {
		if err := r.message(m); err != nil {
			return "", err
		}
	}
	for _, t := range now.Tasks {
		if text, ok := t.Error.(string); ok {
			failure = cmp.Or(failure, text)
		}
		r.addInterrupts(t.Interrupts)
	}
	return failure, nil
}

// A todo is a step of the plan that LangChain's middleware keeps. //nolint:godox // its name there
type todo struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

func (r *reader) plan(todos []todo) error {
	if len(todos) == 0 {
		return nil
	}
	plan := backend.Plan{}
	for _, t := range todos {
		plan.Steps = append(plan.Steps, event.PlanStep{Content: t.Content, Done: t.Status == "completed"})
	}
	return r.emit(plan)
}

// custom emits an event of the graph. One with a type and data is named so.
func (r *reader) custom(data []byte) error {
	var named struct {
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if jsonv2.Unmarshal(data, &named) != nil || named.Type == "" || jsontext.Value(named.Data).Kind() != '{' {
		named.Type, named.Data = "langgraph.custom", json.RawMessage(data)
		if jsontext.Value(data).Kind() != '{' {
			named.Data = json.RawMessage(`{"value":` + string(data) + `}`)
		}
	}
	if _, err := event.NewCustom(named.Type, named.Data); err != nil {
		return nil //nolint:nilerr // the log has no such event: a name of ours, or data that is too large
	}
	return r.emit(backend.Custom{Type: named.Type, Data: named.Data})
}
