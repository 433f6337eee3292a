// Package chat is the codec of OpenAI's Chat Completions: the answer of an agent is the one message of a completion. Calls of
// the agent's own tools are not shown; what the client must do is a call of a function.
package chat

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/openai/wire"
)

// Codec is the codec of a stream.
type Codec struct {
	Usage bool // the stream ends with a chunk that has the usage
}

var _ codec.Codec = Codec{}

// Decode implements codec.Codec.
func (Codec) Decode(body []byte) (event.AgentRequest, error) {
	in, err := DecodeInput(body)
	if err != nil {
		return event.AgentRequest{}, err
	}
	r, err := in.Request()
	return r.Request, err
}

// EncodeError implements codec.Codec.
func (Codec) EncodeError(f codec.ErrorResponse) (contentType string, body []byte) {
	return wire.EncodeError(f)
}

// Encoder returns an encoder for server-sent events. Options.Include and Options.Accept are not used: the API has one format.
// An event of a log can become several chunks. The last of them has the cursor, which clients of this API ignore.
func (c Codec) Encoder(o codec.Options) (codec.Encoder, error) {
	e := &encoder{from: o.From, cursor: o.Cursor, withUsage: c.Usage, sent: map[string]bool{}}
	if e.cursor == nil {
		e.cursor = codec.AppendCursor
	}
	return e, nil
}

type encoder struct {
	from      uint64
	cursor    codec.CursorFunc
	withUsage bool

	id       string // of the completion
	created  int64
	model    string
	threadID string
	begun    bool
	text     bool            // text was sent
	sent     map[string]bool // open blocks that were sent in part
	calls    int
	out      [][]byte // the data of the current event's chunks
}

// ContentType implements codec.Encoder.
func (*encoder) ContentType() string { return sse.ContentType }

// Start is 0: what an event becomes depends on the events before it.
func (*encoder) Start() uint64 { return 0 }

// Append implements codec.Encoder.
func (e *encoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		decoded, err := event.Decode(line.JSON)
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
		e.out = e.out[:0]
		e.project(decoded)
		if line.N < e.from {
			continue
		}
		for i, data := range e.out {
			var at []byte
			if i == len(e.out)-1 {
				at = e.cursor(nil, f.Incarnation, line.N)
			}
			if dst, err = sse.Append(dst, at, "", data); err != nil {
				return dst, fmt.Errorf("event %d: %w", line.N, err)
			}
		}
	}
	return dst, nil
}

// AppendControl adds a comment.
func (*encoder) AppendControl(dst []byte, n codec.Control) []byte {
	if n.Comment != "" {
		if noted, err := sse.AppendComment(dst, n.Comment); err == nil { // a comment with a line break is left out
			dst = noted
		}
	}
	return dst
}

// project adds the chunks of an event.
func (e *encoder) project(decoded event.Event) {
	switch b := decoded.Body.(type) {
	case event.Metadata:
		e.threadID, e.model = b.ThreadID, b.AgentID
		e.begin(decoded)
	case event.Text:
		e.block(decoded, b.Block, b.Delta, b.Text)
	case event.FinalAnswer:
		e.block(decoded, b.Block, b.Delta, b.Content)
	case event.Thinking:
		if b.Stage == event.StageDelta && b.Delta != "" {
			e.begin(decoded)
			e.chunk(Delta{Reasoning: b.Delta})
		}
	case event.Continuation:
		e.begin(decoded)
		call := wire.CallOf(b, e.threadID)
		index := e.calls
		e.calls++
		e.chunk(Delta{ToolCalls: []ToolCall{{
			Index: &index, ID: call.ID, Type: "function", Function: functionCall{call.Name, call.Arguments},
		}}})
	case event.Done:
		e.begin(decoded)
		e.done(b)
	default:
		if failure, ok := wire.EndError(decoded.Body); ok {
			e.out = append(e.out, wire.Encode(wire.ErrorBody{Error: failure}))
		}
	}
}

// begin adds the first chunk, once.
func (e *encoder) begin(decoded event.Event) {
	if e.begun {
		return
	}
	e.begun = true
	e.id, e.created = ID(decoded.RequestID), seconds(decoded.Time)
	empty := ""
	e.chunk(Delta{Role: roleAssistant, Content: &empty})
}

// block adds text. An empty line separates it from the text before it; that also applies to a block that repeats one which was
// sent in part before the runner ended.
func (e *encoder) block(decoded event.Event, at event.Block, delta, whole string) {
	switch at.Stage {
	case event.StageDelta:
		e.begin(decoded)
		e.addText(at.BlockID, delta)
	case event.StageStop:
		if !at.Discarded && !e.sent[at.BlockID] {
			e.begin(decoded)
			e.addText(at.BlockID, whole)
		}
		delete(e.sent, at.BlockID)
	case event.StageStart:
	}
}

func (e *encoder) addText(blockID, text string) {
	if text == "" {
		return
	}
	if e.text && !e.sent[blockID] {
		text = separator + text
	}
	e.text, e.sent[blockID] = true, true
	e.chunk(Delta{Content: &text})
}

// separator is between the texts of several turns.
const separator = "\n\n"

func (e *encoder) done(b event.Done) {
	reason := finishReason(b.FinishReason)
	e.add(ChunkChoice{FinishReason: &reason})
	if e.withUsage {
		e.out = append(e.out, wire.Encode(Chunk{
			ID: e.id, Object: objectChunk, Created: e.created, Model: e.model, Choices: []ChunkChoice{}, Usage: usageOf(b.Usage),
		}))
	}
	e.out = append(e.out, []byte("[DONE]"))
}

func (e *encoder) chunk(d Delta) { e.add(ChunkChoice{Delta: d}) }

func (e *encoder) add(c ChunkChoice) {
	e.out = append(e.out, wire.Encode(Chunk{
		ID: e.id, Object: objectChunk, Created: e.created, Model: e.model, Choices: []ChunkChoice{c},
	}))
}

// Outcome is a request that has ended well.
type Outcome struct {
	RequestID string
	ThreadID  string
	AgentID   string
	At        time.Time
	Blocks    []event.Body
	Actions   []event.Continuation
	Done      event.Done
}

// Completion returns the response of a request.
func (o Outcome) Completion() Completion {
	var texts, thoughts []string
	for _, body := range o.Blocks {
		switch b := body.(type) {
		case event.Text:
			texts = append(texts, b.Text)
		case event.FinalAnswer:
			texts = append(texts, b.Content)
		case event.Thinking:
			thoughts = append(thoughts, b.Thinking)
		}
	}
	answer := Answer{Role: roleAssistant, Reasoning: strings.Join(thoughts, separator)}
	if text := strings.Join(texts, separator); text != "" || len(o.Actions) == 0 {
		answer.Content = &text
	}
	for _, action := range o.Actions {
		call := wire.CallOf(action, o.ThreadID)
		answer.ToolCalls = append(answer.ToolCalls, ToolCall{
			ID: call.ID, Type: "function", Function: functionCall{call.Name, call.Arguments},
		})
	}
	return Completion{
		ID: ID(o.RequestID), Object: objectCompletion, Created: seconds(o.At), Model: cmp.Or(o.AgentID, "unknown"),
		Choices: []Choice{{Message: answer, FinishReason: finishReason(o.Done.FinishReason)}}, Usage: usageOf(o.Done.Usage),
	}
}
