package wire

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// ThreadCodec is the codec of a thread's stream: its runs, one after the other.
type ThreadCodec struct {
	Filter *Filter // of the thread protocol; nil = the streams of the runs
	Modes  Modes   // of the streams of the runs; zero = those with which each was started

	Index func() int // of the request of the current frame, on its thread
	// Earlier returns the state of the thread before a run. It is called once, for the first run of the stream.
	Earlier func(requestID string) (Values, error)
}

// Encoder returns an encoder for server-sent events. Options.From is that of the first request.
func (c ThreadCodec) Encoder(o codec.Options) (codec.Encoder, error) {
	e := &threadEncoder{codec: c, from: o.From, cursor: o.Cursor}
	if e.cursor == nil {
		e.cursor = codec.AppendCursor
	}
	return e, nil
}

// Decode implements codec.Codec.
func (ThreadCodec) Decode(body []byte) (event.AgentRequest, error) { return Codec{}.Decode(body) }

// EncodeError implements codec.Codec.
func (ThreadCodec) EncodeError(f codec.ErrorResponse) (contentType string, body []byte) {
	return Codec{}.EncodeError(f)
}

var _ codec.Codec = ThreadCodec{}

type threadEncoder struct {
	codec  ThreadCodec
	from   uint64
	cursor codec.CursorFunc

	begun     bool
	requestID string // of the current run
	run       run
	messages  speaker
	agent     string   // of the current run
	answered  []string // the interrupts that it answers
}

// ContentType implements codec.Encoder.
func (*threadEncoder) ContentType() string { return sse.ContentType }

// Start is 0: what an event becomes depends on the events before it.
func (*threadEncoder) Start() uint64 { return 0 }

// AppendControl implements codec.Encoder.
func (*threadEncoder) AppendControl(dst []byte, n codec.Control) []byte { return appendControl(dst, n) }

// Append implements codec.Encoder.
func (e *threadEncoder) Append(dst []byte, f event.Frame) ([]byte, error) {
	for line := range f.Each() {
		decoded, err := event.Decode(line.JSON)
		if err == nil {
			dst, err = e.append(dst, f.Incarnation, line.N, decoded)
		}
		if err != nil {
			return dst, fmt.Errorf("event %d: %w", line.N, err)
		}
	}
	return dst, nil
}

func (e *threadEncoder) append(dst []byte, incarnation string, n uint64, decoded event.Event) ([]byte, error) {
	if !e.begun || decoded.RequestID != "" && decoded.RequestID != e.requestID {
		e.begin(decoded.RequestID)
	}
	if b, ok := decoded.Body.(event.Input); ok && b.SteerID == "" {
		e.input(b)
	}
	e.run.muted = e.codec.Filter == nil && n < e.from
	parts, err := e.run.project(decoded)
	if err != nil {
		return dst, err
	}
	if e.codec.Filter != nil {
		return e.appendEvents(dst, incarnation, n, e.events(decoded, parts))
	}
	for i, p := range parts {
		var at []byte
		if i == len(parts)-1 {
			at = e.cursor(nil, incarnation, n)
		}
		if dst, err = sse.Append(dst, at, p.name, encode(p.data)); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// begin begins the stream of a run with the state that the run before it has left.
func (e *threadEncoder) begin(requestID string) {
	next := run{modes: e.codec.Modes}
	if e.codec.Filter != nil {
		next.modes = channelModes()
	}
	if e.begun {
		e.from = 0
		e.run.state.close()
		before := e.run.state.values()
		next.earlier = func() (Values, error) { return before, nil }
	} else if e.codec.Earlier != nil {
		next.earlier = func() (Values, error) { return e.codec.Earlier(requestID) }
	}
	e.begun, e.requestID, e.run, e.messages, e.agent, e.answered = true, requestID, next, speaker{}, "", nil
}

// input reads how a run was started.
func (e *threadEncoder) input(b event.Input) {
	e.agent = b.AgentID
	for _, r := range b.ActionResults {
		e.answered = append(e.answered, r.ActionID)
	}
	if e.codec.Filter == nil && e.codec.Modes == (Modes{}) {
		modes, err := ParseModes(ReadStored(b.Metadata).Modes)
		if err != nil || modes == (Modes{}) {
			modes.Values = true
		}
		e.run.modes = modes
	}
}

// threadEvent is an event of the thread protocol.
type threadEvent struct {
	Type    string `json:"type"` // event
	EventID string `json:"event_id"`
	Seq     uint64 `json:"seq"`
	Method  string `json:"method"`
	Params  params `json:"params"`

	channel string
	name    string // of an event of an application
}

type params struct {
	Namespace []string `json:"namespace"` // empty: the root
	Timestamp int64    `json:"timestamp"` // in milliseconds
	Node      string   `json:"node,omitempty"`
	Data      any      `json:"data"`
}

// appendEvents writes the events after the one that the client has, of its channels. Those of the lifecycle name their run in the
// id, by which the client knows it.
func (e *threadEncoder) appendEvents(dst []byte, incarnation string, n uint64, events []threadEvent) ([]byte, error) {
	at := Position{N: n}
	if e.codec.Index != nil {
		at.Index = e.codec.Index()
	}
	cursor := e.cursor(nil, incarnation, n)
	for i, one := range events {
		seq, ok := at.seq(i)
		if !ok {
			return dst, fmt.Errorf("the thread is too long for the thread protocol: request %d, part %d", at.Index, i)
		}
		if n < e.from || seq <= e.codec.Filter.Since || !e.codec.Filter.has(one.channel, one.name) {
			continue
		}
		one.Type, one.Seq, one.Params.Namespace = "event", seq, []string{}
		one.EventID = string(cursor) + "." + strconv.Itoa(i)
		if one.channel == channelLifecycle {
			one.EventID = "synth:" + e.requestID + ":" + one.EventID
		}
		var err error
		if dst, err = sse.Append(dst, one.EventID, one.Method, encode(one)); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// lifecycle is the state of a run.
type lifecycle struct {
	Event     string `json:"event"` // running, completed, failed, interrupted
	GraphName string `json:"graph_name,omitempty"`
	Error     string `json:"error,omitempty"`
}

// events returns what an event of the log becomes.
func (e *threadEncoder) events(at event.Event, parts []part) []threadEvent {
	var all []threadEvent
	add := func(channel, method string, data any) *threadEvent {
		all = append(all, threadEvent{channel: channel, Method: method, Params: params{Timestamp: at.Time.UnixMilli(), Data: data}})
		return &all[len(all)-1]
	}
	if e.run.begun {
		for _, data := range e.messages.take(at, &e.run.state) {
			add(channelMessages, "messages", data).Params.Node = nodeAgent
		}
	}
	for _, p := range parts {
		switch data := p.data.(type) {
		case Values:
			data.Interrupts = nil
			add(channelValues, "values", data)
		case toolEvent:
			add(channelTools, "tools", data.protocol())
		case custom:
			add(channelCustom, "custom", map[string]any{"name": data.Type, "payload": data.Data}).name = data.Type
		case RunError:
			add(channelLifecycle, "lifecycle", lifecycle{"failed", e.agent, data.Message})
		case map[string]any:
			e.mapped(p, data, add)
		case nil: // the event end
			add(channelLifecycle, "lifecycle", lifecycle{e.ending(at.Body), e.agent, ""})
		}
	}
	if b, ok := at.Body.(event.Continuation); ok {
		i := NewInterrupt(b.ActionID, b.Kind, b.Payload)
		add(channelInput, "input.requested", map[string]any{"interrupt_id": i.ID, "payload": i.Value})
	}
	return all
}

// mapped adds the events for the parts that are objects: the begin of the run, and updates.
func (e *threadEncoder) mapped(p part, data map[string]any, add func(channel, method string, data any) *threadEvent) {
	switch p.name {
	case "metadata":
		add(channelLifecycle, "lifecycle", lifecycle{"running", e.agent, ""})
		if len(e.answered) > 0 {
			add(channelInput, "input.answered", map[string]any{"interrupt_ids": e.answered})
		}
	case modeUpdates:
		for node, changed := range data { // of one node
			if node != "__interrupt__" {
				add(channelUpdates, "updates", changed).Params.Node = node
			}
		}
	}
}

// ending is the state of a run that has not failed.
func (e *threadEncoder) ending(end event.Body) string {
	if _, aborted := end.(event.Aborted); aborted || len(e.run.waiting) > 0 {
		return "interrupted"
	}
	return "completed"
}

// protocol returns the event of a tool as the thread protocol has it.
func (t toolEvent) protocol() map[string]any {
	switch t.Event {
	case "on_tool_start":
		return map[string]any{"event": "tool-started", "tool_call_id": t.ToolCallID, "tool_name": t.Name, "input": t.Input}
	case "on_tool_error":
		return map[string]any{"event": "tool-error", "tool_call_id": t.ToolCallID, "message": t.Error}
	default:
		return map[string]any{"event": "tool-finished", "tool_call_id": t.ToolCallID, "output": t.Output}
	}
}

// contentOrInvalid is the complete block of a call. Arguments that are not an object are those of a call that was not completed.
func contentOrInvalid(id, name string, args json.RawMessage, text []byte) map[string]any {
	if len(args) == 0 && len(text) > 0 {
		return map[string]any{"type": "invalid_tool_call", "id": id, "name": name, "args": string(text), "error": "the call was not completed"}
	}
	return map[string]any{"type": "tool_call", "id": id, "name": name, "args": object(args)}
}
