package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/transcript"
	"github.com/agentbus/agentbus/pkg/weaken"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of one turn. A text that is longer than a block continues in the next block: the stop of a block repeats its
// text and must fit into a message, even if each byte takes six in JSON.
const (
	maxBlockBytes = 128 << 10
	maxDeltaBytes = 32 << 10
	maxArgsBytes  = 256 << 10
	maxCalls      = 128
)

var errCut = errors.New("the turn is over")

// turnWriter turns the chunks of one turn into events: start, deltas and stop of each block.
//
// If a crashed runner left finished blocks of this turn, the turn is repeated: blocks that come out equal are not
// written again, and from the first difference on the old blocks are discarded.
type turnWriter struct {
	run *run

	mu       sync.Mutex // the backend may emit after the turn was cut
	over     bool
	prose    *draft   // the open text or thinking block
	calls    []*draft // open until the end of the turn, because their deltas may interleave
	finished []transcript.Block

	customs  []event.Custom // written by a crashed runner for this turn
	number   int            // number of the turn
	started  time.Time      // start of the turn, or of the agent's current step
	first    time.Time      // time of the first chunk
	produced bool           // a chunk came that is not a warning
	tools    []*agentTool   // run by the agent and not ended
	ran      map[string]bool
}

// draft is a block in progress.
type draft struct {
	kind      event.Name
	blockID   string
	deltas    int
	size      int
	signature string
	matched   *transcript.Block // the finished block that equals this one so far
	held      []byte            // text that matched it

	index  int // of a call
	callID string
	tool   string
	gate   event.ContinuationKind
	agents bool // the agent runs it itself, if a person allows it
	args   []byte
	report *report // set for a final answer
}

func newTurnWriter(r *run) *turnWriter {
	repeat := r.State.Unfinished()
	if weaken.Without(weaken.RepeatBlocks) {
		repeat = nil
	}
	s := &turnWriter{
		run: r, finished: repeat, customs: r.State.Emitted(), number: r.State.Turns() + 1, started: time.Now(),
	}
	s.adopt()
	return s
}

// chunk is the backend.Emit of the turn.
func (s *turnWriter) chunk(c backend.Chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errCut
	}
	if s.first.IsZero() {
		s.first = time.Now()
	}
	if _, warning := c.(backend.Warning); !warning {
		s.produced = true
	}
	switch c := c.(type) {
	case backend.TextDelta:
		return s.text(event.NameText, string(c))
	case backend.TextSignature:
		return s.signText(string(c))
	case backend.ThinkingDelta:
		return s.text(event.NameThinking, string(c))
	case backend.Signature:
		return s.addSignature(string(c))
	case backend.CallStart:
		return s.call(c)
	case backend.CallDelta:
		return s.callDelta(c)
	case backend.CallSignature:
		return s.signCall(c)
	case backend.Warning:
		return s.run.events.emit(event.Notice{Level: "warning", Message: clean(string(c))})
	case backend.Custom:
		return s.custom(c)
	default:
		return s.agent(c)
	}
}

// cut ends the turn: later chunks have no effect.
func (s *turnWriter) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
}

// finish stops all blocks at the end of a turn that succeeded or reached a limit.
func (s *turnWriter) finish(spent bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.endText(); err != nil {
		return err
	}
	if err := s.endTools(spent); err != nil {
		return err
	}
	for _, d := range s.calls {
		end := s.endCall
		if d.report != nil {
			end = s.endReport
		}
		if err := end(d); err != nil {
			return err
		}
	}
	return s.discard()
}

func (s *turnWriter) text(kind event.Name, text string) error {
	text = strings.ToValidUTF8(text, "\uFFFD")
	for text != "" {
		if s.prose != nil && (s.prose.kind != kind || s.prose.signature != "" || s.prose.size >= maxBlockBytes) {
			if err := s.endText(); err != nil {
				return err
			}
		}
		if s.prose == nil {
			d := &draft{kind: kind}
			if err := s.begin(d); err != nil {
				return err
			}
			s.prose = d
		}
		room := min(maxDeltaBytes, maxBlockBytes-s.prose.size)
		piece := head(text, room)
		text = text[len(piece):]
		if err := s.add(s.prose, piece); err != nil {
			return err
		}
	}
	return nil
}

// head returns the first n bytes of text, cut at a character, but at least one character.
func head(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	if n == 0 {
		_, n = utf8.DecodeRuneInString(text)
	}
	return text[:n]
}

// signText adds a signature to the current text block.
func (s *turnWriter) signText(signature string) error {
	if s.prose != nil && s.prose.kind == event.NameText {
		s.prose.signature += signature
	}
	return nil
}

func (s *turnWriter) signCall(c backend.CallSignature) error {
	d := s.find(c.Index)
	if d == nil {
		return fmt.Errorf("the backend signed call %d of the turn before it started it", c.Index)
	}
	d.signature = c.Signature
	return nil
}

// addSignature adds a signature to the current thinking block. Without one, it starts a block whose thinking the provider
// hides.
func (s *turnWriter) addSignature(signature string) error {
	if s.prose == nil || s.prose.kind != event.NameThinking {
		if err := s.endText(); err != nil {
			return err
		}
		d := &draft{kind: event.NameThinking}
		if err := s.begin(d); err != nil {
			return err
		}
		s.prose = d
	}
	s.prose.signature += signature
	return nil
}

func (s *turnWriter) call(c backend.CallStart) error {
	if err := s.endText(); err != nil {
		return err
	}
	if s.find(c.Index) != nil {
		return fmt.Errorf("the backend started call %d of the turn twice", c.Index)
	}
	if len(s.calls) == maxCalls {
		return apierr.New(apierr.AgentError, "the model made more than %d tool calls in one turn", maxCalls)
	}
	if s.run.isFinalAnswer(c) {
		s.calls = append(s.calls, &draft{kind: event.NameFinalAnswer, index: c.Index, report: new(report)})
		return nil
	}
	d := s.newCall(c)
	s.calls = append(s.calls, d)
	return s.begin(d)
}

func (s *turnWriter) newCall(c backend.CallStart) *draft {
	r := s.run
	return &draft{
		kind: event.NameToolCall, index: c.Index, tool: clean(c.Name), gate: r.gate(c.Name, c.Gate),
		agents: c.Gate == backend.GateAgentApproval,
		callID: id.Derive(id.Call, r.RequestID, strconv.Itoa(s.number), strconv.Itoa(c.Index)),
	}
}

func (s *turnWriter) find(index int) *draft {
	for _, d := range s.calls {
		if d.index == index {
			return d
		}
	}
	return nil
}

func (s *turnWriter) callDelta(c backend.CallDelta) error {
	d := s.find(c.Index)
	if d == nil {
		return fmt.Errorf("the backend gave arguments for call %d of the turn before it started it", c.Index)
	}
	if len(d.args)+len(c.Args) > maxArgsBytes {
		return apierr.New(apierr.AgentError, "the arguments of tool %.64q are longer than %d bytes", d.tool, maxArgsBytes)
	}
	d.args = append(d.args, c.Args...)
	if d.report != nil {
		return s.reportDelta(d, c.Args)
	}
	return s.add(d, clean(c.Args))
}

func (s *turnWriter) endText() error {
	d := s.prose
	s.prose = nil
	if d == nil {
		return nil
	}
	if d.matched != nil {
		if d.matched.Text == string(d.held) {
			return nil
		}
		if err := s.diverge(d); err != nil {
			return err
		}
	}
	j := &s.run.events
	if d.kind == event.NameThinking {
		return j.emit(event.Thinking{Block: j.stop(d.blockID), Thinking: j.text(d.blockID), Signature: d.signature})
	}
	return j.emit(event.Text{Block: j.stop(d.blockID), Text: j.text(d.blockID), Signature: d.signature})
}

func (s *turnWriter) endCall(d *draft) error {
	if len(strings.TrimSpace(string(d.args))) == 0 {
		// Some models omit the arguments of tools without parameters. The deltas must still be JSON.
		d.args = []byte("{}")
		if err := s.add(d, "{}"); err != nil {
			return err
		}
	}
	args, gate, agents, reason := json.RawMessage(d.args), d.gate, d.agents, ""
	if !jsontext.Value(args).IsValid() || jsontext.Value(args).Kind() != '{' {
		args, gate, agents, reason = json.RawMessage("{}"), "", false, transcript.ReasonInvalid
	}
	if d.matched != nil {
		if reason == d.matched.Reason && same(args, d.matched.Args) {
			return nil
		}
		if err := s.diverge(d); err != nil {
			return err
		}
	}
	stop := s.run.events.stop(d.blockID)
	stop.Reason = reason
	body := event.ToolCall{Block: stop, ToolCallID: d.callID, Tool: d.tool, Args: args, Gate: gate, ByAgent: agents, Signature: clean(d.signature)}
	if spec, known := s.run.spec(d.tool); known && !s.run.State.Described(d.tool) {
		body.Description, body.Schema = spec.Description, spec.Schema
	}
	return s.run.events.emit(body)
}

// answers reports whether the turn has no tool call that must run.
func (s *turnWriter) answers() bool {
	return !slices.ContainsFunc(s.calls, func(d *draft) bool { return d.kind == event.NameToolCall })
}

// ttft returns the time to the first chunk in milliseconds; 0 without chunks.
func (s *turnWriter) ttft() int64 {
	if s.first.IsZero() {
		return 0
	}
	return s.first.Sub(s.started).Milliseconds()
}
