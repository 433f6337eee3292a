package transcript

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// ReasonInvalid is the reason in a tool_call's stop whose arguments were not a JSON object. The stop then has empty
// arguments, and the call never runs.
const ReasonInvalid = "invalid_arguments"

// Block is one block of the answer.
type Block struct {
	ID     string
	Index  int
	Kind   event.Name // text, thinking, final_answer, tool_call or tool_result
	Reason string     // why it was cut

	Text      string // of text, thinking and final answers
	Signature string // of text, thinking and calls
	Title     string // of final answers
	Format    string
	Report    string // their kind

	CallID string // of calls and results
	Tool   string
	Args   json.RawMessage
	Gate   event.ContinuationKind
	Inside bool // the agent runs the call by itself

	Status  event.ToolStatus // of results
	Summary string
	Media   []event.InputPart

	partial   []byte // deltas of an open block
	deltas    int    // of an open result
	unsettled int    // of these, those since the newest settled session
}

// block folds one event of a block. b has the event's fields, delta the text that it appends.
func (s *State) block(at event.Block, b Block, delta string) {
	r := &s.request
	b.ID, b.Reason = at.BlockID, at.Reason
	i := slices.IndexFunc(r.open, func(o Block) bool { return o.ID == b.ID })
	switch at.Stage {
	case event.StageStart:
		b.Index = r.nextBlock
		if at.BlockIndex != nil {
			b.Index = *at.BlockIndex
		}
		r.nextBlock = max(r.nextBlock, b.Index+1)
		r.open = append(r.open, b)
	case event.StageDelta:
		if i >= 0 {
			r.open[i].partial = append(r.open[i].partial, delta...)
			if b.Kind == event.NameToolResult {
				r.open[i].deltas++
				r.open[i].unsettled++
			}
		}
	case event.StageStop:
		b.Index = r.nextBlock
		if i >= 0 {
			b.Index = r.open[i].Index
			r.open = slices.Delete(r.open, i, i+1)
		}
		s.finish(b, at.Discarded)
	}
}

// finish keeps a stopped block. A discarded one does not count, even if it had counted before.
func (s *State) finish(b Block, discarded bool) {
	r := &s.request
	if discarded {
		same := func(o Block) bool { return o.ID == b.ID }
		r.blocks = slices.DeleteFunc(r.blocks, same)
		r.turn = slices.DeleteFunc(r.turn, same)
		return
	}
	if b.Text+b.Signature == "" && b.Kind != event.NameToolCall && b.Kind != event.NameToolResult {
		return
	}
	r.blocks = insert(r.blocks, b)
	if b.Kind != event.NameToolResult {
		r.turn = insert(r.turn, b)
	}
}

func insert(blocks []Block, b Block) []Block {
	i, _ := slices.BinarySearchFunc(blocks, b.Index+1, func(o Block, index int) int { return cmp.Compare(o.Index, index) })
	return slices.Insert(blocks, i, b)
}

func (b Block) call() backend.Call {
	return backend.Call{ID: b.CallID, Name: b.Tool, Args: b.Args, Signature: b.Signature}
}

// content is the block as done.content shows it.
func (b Block) content() event.Content {
	switch b.Kind {
	case event.NameThinking:
		return event.Content{Type: event.ContentThinking, Thinking: b.Text}
	case event.NameToolCall:
		return event.Content{Type: event.ContentToolUse, ToolCallID: b.CallID, Name: b.Tool, Args: b.Args}
	case event.NameToolResult:
		return event.Content{
			Type: event.ContentToolResult, ToolCallID: b.CallID, Name: b.Tool, Status: b.Status, Summary: b.Summary,
			Media: b.Media,
		}
	default:
		return event.Content{Type: event.ContentText, Text: b.Text}
	}
}
