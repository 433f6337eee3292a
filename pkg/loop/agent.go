package loop

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of what an agent that runs its own tools may put into a log.
const (
	maxAgentTools   = 10_000 // in one turn
	maxSummaryChars = 200
)

// errSpent tells an agent that takes several turns by itself that there may be no other one.
var errSpent = errors.New("the request has reached its limit of turns, tokens or cost")

// agentTool is a tool that the agent runs by itself.
type agentTool struct {
	id      string // the agent's
	callID  string // ours
	name    string
	blockID string // of the result
	deltas  int
	repeats int // deltas to come that the log has already: of a runner that died
	started time.Time
}

// agent is the chunk of an agent that runs its own tools.
func (s *speech) agent(c backend.Chunk) error {
	switch c := c.(type) {
	case backend.State:
		return s.keep(c)
	case backend.ToolStarted:
		return s.toolStarted(c)
	case backend.ToolProgress:
		return s.toolProgress(c)
	case backend.ToolEnded:
		return s.toolEnded(c)
	case backend.Step:
		return s.step(c)
	case backend.Plan:
		return s.plan(c)
	case backend.Settled:
		return s.settled(c)
	default:
		return fmt.Errorf("the backend emitted a chunk of unknown type %T", c)
	}
}

// keep writes what it takes to resume the agent's session.
func (s *speech) keep(state backend.State) error {
	if state == s.run.State.Session() {
		return nil
	}
	return s.run.journal.emit(event.AgentSession{SessionID: clean(state.ID), Used: state.Used})
}

// settled writes chunks and the state that covers them as a whole: a log that had one without the other would say the
// chunks twice, or lose what comes behind them. The text before them need not be among them: text that comes again is not
// written twice.
func (s *speech) settled(c backend.Settled) error {
	if err := s.endProse(); err != nil {
		return err
	}
	if err := s.discard(); err != nil {
		return err
	}
	j := &s.run.journal
	return j.whole(func() error {
		var err error
		for _, chunk := range c.Chunks {
			if err = s.agent(chunk); err != nil {
				break
			}
		}
		if err != nil && !errors.Is(err, errSpent) {
			return err
		}
		session := event.AgentSession{SessionID: clean(c.State.ID), Used: c.State.Used, Settled: true}
		for _, t := range s.tools {
			session.Running = append(session.Running, event.AgentTool{ID: t.id, ToolCallID: t.callID})
		}
		return errors.Join(err, j.emit(session))
	})
}

// adopt takes up the tools that the agent has gone on with since the runner before this one died.
func (s *speech) adopt() {
	for _, b := range s.run.State.Running() {
		s.tools = append(s.tools, &agentTool{
			id: b.AgentID, callID: b.CallID, name: b.Tool, blockID: b.ID, deltas: b.Deltas, repeats: b.Unsettled, started: time.Now(),
		})
	}
}

// toolStarted writes a call and the start of its result. What a dead runner's turn has left is not repeated behind it.
func (s *speech) toolStarted(c backend.ToolStarted) error {
	if err := s.endProse(); err != nil {
		return err
	}
	if err := s.discard(); err != nil {
		return err
	}
	if s.ran[c.ID] {
		return fmt.Errorf("the backend started tool %q of the turn twice", c.ID)
	}
	if len(s.ran) == maxAgentTools {
		return apierr.New(apierr.AgentError, "the agent ran more than %d tools in one turn", maxAgentTools)
	}
	if s.ran == nil {
		s.ran = make(map[string]bool)
	}
	s.ran[c.ID] = true
	r := s.run
	t := &agentTool{
		id: c.ID, name: head(clean(c.Name), id.MaxLength), started: time.Now(),
		callID: id.Derive(id.Call, r.RequestID, strconv.Itoa(s.number), strconv.FormatUint(r.Epoch, 10), c.ID),
	}
	// As a whole: a call without a result block would stay without a result when the runner dies.
	err := r.journal.whole(func() (err error) {
		if err := s.callOf(t, shown(c.Args)); err != nil {
			return err
		}
		t.blockID, err = r.journal.open(func(b event.Block) event.Body {
			return event.ToolResult{Block: b, ToolCallID: t.callID, Tool: t.name}
		})
		return err
	})
	s.tools = append(s.tools, t)
	return err
}

// callOf writes the whole call of an agent's tool.
func (s *speech) callOf(t *agentTool, args jsontext.Value) error {
	j := &s.run.journal
	blockID, err := j.open(func(b event.Block) event.Body {
		return event.ToolCall{Block: b, ToolCallID: t.callID, Tool: t.name}
	})
	if err != nil {
		return err
	}
	if err := j.emit(event.ToolCall{Block: j.delta(blockID, 0), ToolCallID: t.callID, Delta: string(args)}); err != nil {
		return err
	}
	return j.emit(event.ToolCall{Block: j.stop(blockID), ToolCallID: t.callID, Tool: t.name, Args: args, ByAgent: true})
}

// shown are arguments as the log has them: nobody needs those of a tool that has run, so long ones are only mentioned.
func shown(args jsontext.Value) jsontext.Value {
	args = jsontext.Value(clean(string(args)))
	switch {
	case len(args) > maxArgsBytes:
		return jsontext.Value(fmt.Sprintf(`{"omitted":"%d bytes of arguments"}`, len(args)))
	case !args.IsValid() || args.Kind() != '{':
		return jsontext.Value("{}")
	default:
		return args
	}
}

func (s *speech) tool(agentID string) (*agentTool, error) {
	for _, t := range s.tools {
		if t.id == agentID {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the backend told of tool %q of the turn, which does not run", agentID)
}

func (s *speech) toolProgress(c backend.ToolProgress) error {
	t, err := s.tool(c.ID)
	if err != nil || c.Delta == "" {
		return err
	}
	if t.repeats > 0 {
		t.repeats--
		return nil
	}
	at := s.run.journal.delta(t.blockID, t.deltas)
	t.deltas++
	return s.run.journal.emit(event.ToolResult{Block: at, ToolCallID: t.callID, Delta: head(clean(c.Delta), maxDeltaBytes)})
}

func (s *speech) toolEnded(c backend.ToolEnded) error {
	t, err := s.tool(c.ID)
	if err != nil {
		return err
	}
	if err := s.endProse(); err != nil {
		return err
	}
	s.tools = slices.DeleteFunc(s.tools, func(o *agentTool) bool { return o == t })
	content := clean(c.Content)
	if short := head(content, maxOutputBytes); len(short) < len(content) {
		content = fmt.Sprintf("%s\n[%d more bytes]", short, len(content)-len(short))
	}
	return s.run.journal.result(t.callID, t.name, t.blockID, Output{
		Status: cmp.Or(c.Status, event.ToolSuccess), Content: content,
		Summary: cmp.Or(clean(c.Summary), firstLine(content)), Elapsed: cmp.Or(c.Elapsed, time.Since(t.started)),
	}, nil)
}

// firstLine is the first line of an output, for clients.
func firstLine(content string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(content), "\n")
	return abridged(strings.TrimSpace(line), maxSummaryChars)
}

// endTools ends the tools that the agent has started and said no more about.
func (s *speech) endTools(spent bool) error {
	ended := backend.ToolEnded{Status: event.ToolUnknown, Content: "the agent ended without saying how the tool did"}
	if spent {
		ended = backend.ToolEnded{Status: event.ToolAborted, Content: "the request reached its limit before the tool ended"}
	}
	for len(s.tools) > 0 {
		ended.ID = s.tools[0].id
		if err := s.toolEnded(ended); err != nil {
			return err
		}
	}
	return nil
}

// step writes the end of a turn that the agent goes on from by itself, unless the request is at its limits.
func (s *speech) step(c backend.Step) error {
	if err := s.endProse(); err != nil {
		return err
	}
	if err := s.discard(); err != nil {
		return err
	}
	r := s.run
	end := s.ended(backend.Outcome{Finish: event.FinishToolCalls, Model: c.Model, Usage: c.Usage},
		r.State.Usage().Add(r.priced(backend.Outcome{Model: c.Model, Usage: c.Usage})))
	if err := r.journal.emit(end); err != nil {
		return err
	}
	s.started, s.first = time.Now(), time.Time{}
	if r.State.Turns() > r.Agent.Turns || r.overBudget() {
		return errSpent
	}
	return nil
}

// plan writes what the agent means to do, unless that is what it meant before.
func (s *speech) plan(c backend.Plan) error {
	if len(c.Steps) == 0 {
		return nil
	}
	for i := range c.Steps {
		c.Steps[i].Content = clean(c.Steps[i].Content)
	}
	last := s.run.State.Plan()
	stage := event.Start
	if last.Stage == event.Start || last.Stage == event.Delta {
		stage = event.Delta
	}
	if stage == event.Delta && slices.Equal(last.Steps, c.Steps) {
		return nil
	}
	return s.run.journal.emit(event.Plan{Stage: stage, Steps: c.Steps})
}

// left are the limits of the next turn. A request that has nothing left takes none.
func (r *run) left() backend.Limits {
	used := r.State.Usage()
	left := backend.Limits{Turns: max(1, r.Agent.Turns-r.State.Turns())}
	if r.Agent.Tokens > 0 {
		left.Tokens = max(1, r.Agent.Tokens-used.InputTokens-used.OutputTokens)
	}
	if r.Agent.CostUSD > 0 {
		left.CostUSD = r.Agent.CostUSD - used.CostUSD
	}
	return left
}
