package loop

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/go-json-experiment/json/jsontext"
)

// maxAgentTools limits the tools of one turn of an agent that runs its own tools.
const maxAgentTools = 10_000

// errLimit ends the turn of an agent that takes several turns by itself: the next one would exceed a limit.
var errLimit = errors.New("the request has reached its limit of turns, tokens or cost")

// agentTool is a tool that the agent runs by itself.
type agentTool struct {
	id      string // assigned by the agent
	callID  string // assigned by the loop
	name    string
	blockID string // of the result
	deltas  int
	skip    int // deltas to skip: a runner that crashed has written them
	started time.Time
}

// agent handles a chunk of an agent that runs its own tools.
func (s *turnWriter) agent(c backend.Chunk) error {
	switch c := c.(type) {
	case backend.State:
		return s.storeState(c)
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
		return s.commitState(c)
	default:
		return fmt.Errorf("the backend emitted a chunk of unknown type %T", c)
	}
}

// storeState writes the state that resumes the agent's session.
func (s *turnWriter) storeState(state backend.State) error {
	if state == s.run.State.Session() {
		return nil
	}
	return s.run.events.emit(event.AgentSession{SessionID: clean(state.ID), Used: state.Used})
}

// commitState writes chunks and the state that covers them atomically. A log with only one of the two would repeat the
// chunks after a takeover, or lose the ones that follow. Text before them need not be included: replayed text is not
// written twice.
func (s *turnWriter) commitState(c backend.Settled) error {
	if err := s.endText(); err != nil {
		return err
	}
	if err := s.discard(); err != nil {
		return err
	}
	j := &s.run.events
	return j.atomically(func() error {
		var err error
		for _, chunk := range c.Chunks {
			if err = s.agent(chunk); err != nil {
				break
			}
		}
		if err != nil && !errors.Is(err, errLimit) {
			return err
		}
		session := event.AgentSession{SessionID: clean(c.State.ID), Used: c.State.Used, Settled: true}
		for _, t := range s.tools {
			session.Running = append(session.Running, event.AgentTool{ID: t.id, ToolCallID: t.callID})
		}
		return errors.Join(err, j.emit(session))
	})
}

// adopt continues the tools that the agent kept running after the previous runner crashed.
func (s *turnWriter) adopt() {
	for _, b := range s.run.State.Running() {
		s.tools = append(s.tools, &agentTool{
			id: b.AgentID, callID: b.CallID, name: b.Tool, blockID: b.ID, deltas: b.Deltas, skip: b.Unsettled, started: time.Now(),
		})
	}
}

// toolStarted writes a call and the start of its result. It first discards the blocks of a crashed runner that the turn
// has not replayed.
func (s *turnWriter) toolStarted(c backend.ToolStarted) error {
	if err := s.endText(); err != nil {
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
	// Atomically: after a crash, a call without a result block would never get a result.
	err := r.events.atomically(func() (err error) {
		if err := s.callOf(t, shown(c.Args), clean(c.Signature)); err != nil {
			return err
		}
		t.blockID, err = r.events.open(func(b event.Block) event.Body {
			return event.ToolResult{Block: b, ToolCallID: t.callID, Tool: t.name}
		})
		return err
	})
	s.tools = append(s.tools, t)
	return err
}

// callOf writes the whole call of an agent's tool.
func (s *turnWriter) callOf(t *agentTool, args json.RawMessage, signature string) error {
	j := &s.run.events
	blockID, err := j.open(func(b event.Block) event.Body {
		return event.ToolCall{Block: b, ToolCallID: t.callID, Tool: t.name}
	})
	if err != nil {
		return err
	}
	if err := j.emit(event.ToolCall{Block: j.delta(blockID, 0), ToolCallID: t.callID, Delta: string(args)}); err != nil {
		return err
	}
	return j.emit(event.ToolCall{Block: j.stop(blockID), ToolCallID: t.callID, Tool: t.name, Args: args, ByAgent: true, Signature: signature})
}

// shown returns arguments as the log stores them. The tool has run already, so long arguments are replaced by their
// size.
func shown(args json.RawMessage) json.RawMessage {
	args = json.RawMessage(clean(string(args)))
	switch {
	case len(args) > maxArgsBytes:
		return json.RawMessage(fmt.Sprintf(`{"omitted":"%d bytes of arguments"}`, len(args)))
	case !jsontext.Value(args).IsValid() || jsontext.Value(args).Kind() != '{':
		return json.RawMessage("{}")
	default:
		return args
	}
}

func (s *turnWriter) tool(agentID string) (*agentTool, error) {
	for _, t := range s.tools {
		if t.id == agentID {
			return t, nil
		}
	}
	return nil, fmt.Errorf("the backend reported tool %q of the turn, which is not running", agentID)
}

func (s *turnWriter) toolProgress(c backend.ToolProgress) error {
	t, err := s.tool(c.ID)
	if err != nil || c.Delta == "" {
		return err
	}
	if t.skip > 0 {
		t.skip--
		return nil
	}
	at := s.run.events.delta(t.blockID, t.deltas)
	t.deltas++
	return s.run.events.emit(event.ToolResult{Block: at, ToolCallID: t.callID, Delta: head(clean(c.Delta), maxDeltaBytes)})
}

func (s *turnWriter) toolEnded(c backend.ToolEnded) error {
	t, err := s.tool(c.ID)
	if err != nil {
		return err
	}
	if err := s.endText(); err != nil {
		return err
	}
	s.tools = slices.DeleteFunc(s.tools, func(o *agentTool) bool { return o == t })
	content := clean(c.Content)
	if short := head(content, maxOutputBytes); len(short) < len(content) {
		content = fmt.Sprintf("%s\n[%d more bytes]", short, len(content)-len(short))
	}
	return s.run.events.result(t.callID, t.name, t.blockID, Output{
		Status: cmp.Or(c.Status, event.ToolSuccess), Content: content,
		Summary: cmp.Or(clean(c.Summary), tool.Size(content)), Elapsed: cmp.Or(c.Elapsed, time.Since(t.started)),
	}, nil, 0)
}

// endTools ends the tools that the agent has started and not ended.
func (s *turnWriter) endTools(spent bool) error {
	ended := backend.ToolEnded{Status: event.ToolUnknown, Content: "the agent ended without saying how the tool did"}
	if spent {
		ended = backend.ToolEnded{Status: event.ToolAborted, Content: "the request reached its limit before the tool ended"}
	}
	for len(s.tools) > 0 {
		ended.ID, ended.Summary = s.tools[0].id, ended.Content
		if err := s.toolEnded(ended); err != nil {
			return err
		}
	}
	return nil
}

// step writes the end of a turn after which the agent continues by itself, unless the request has reached a limit.
func (s *turnWriter) step(c backend.Step) error {
	if err := s.endText(); err != nil {
		return err
	}
	if err := s.discard(); err != nil {
		return err
	}
	r := s.run
	end := s.ended(backend.Outcome{Finish: event.FinishToolCalls, Model: c.Model, Usage: c.Usage},
		r.State.Usage().Add(r.pricedUsage(r.model(), backend.Outcome{Model: c.Model, Usage: c.Usage})))
	if err := r.events.emit(end); err != nil {
		return err
	}
	s.started, s.first = time.Now(), time.Time{}
	if r.State.Turns() > r.Agent.Turns || r.overBudget() {
		return errLimit
	}
	return nil
}

// plan writes the agent's plan if it has changed.
func (s *turnWriter) plan(c backend.Plan) error {
	if len(c.Steps) == 0 {
		return nil
	}
	for i := range c.Steps {
		c.Steps[i].Content = clean(c.Steps[i].Content)
	}
	last := s.run.State.Plan()
	stage := event.StageStart
	if last.Stage == event.StageStart || last.Stage == event.StageDelta {
		stage = event.StageDelta
	}
	if stage == event.StageDelta && slices.Equal(last.Steps, c.Steps) {
		return nil
	}
	return s.run.events.emit(event.Plan{Stage: stage, Steps: c.Steps})
}

// remainingLimits returns the limits of the next turn, at least one turn and one token.
func (r *run) remainingLimits() backend.Limits {
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
