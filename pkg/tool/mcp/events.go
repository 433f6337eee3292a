package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/internal/eventline"
	jsonv2 "github.com/go-json-experiment/json"
)

// EventKey is the key of an event in the _meta of a progress notification: {"type": …, "data": {…}}.
const EventKey = "agentbus/event"

// maxNotification bounds the line of a notification with an event. Longer lines are other messages.
const maxNotification = 2*event.MaxCustomBytes + 4<<10

// receiver is the sink of a call: its live output, and the events that it has emitted since it was begun or continued.
type receiver struct {
	progress func(string)
	show     func(event.Custom) // nil = the call waits for the user

	mu     sync.Mutex
	events []event.Custom
	bytes  int
}

func newReceiver(call tool.Call) *receiver {
	return &receiver{progress: call.Progress, show: call.Show}
}

// waiting returns the receiver of a call while it waits for the user: its output has no reader.
func waiting() *receiver { return &receiver{progress: func(string) {}, show: func(event.Custom) {}} }

func (r *receiver) say(line string) { r.progress(line) }

// emit adds an event. What cannot be one becomes output, with the reason.
func (r *receiver) emit(text []byte) {
	custom, err := eventline.Parse(text)
	if err == nil {
		err = r.add(custom)
	}
	if err != nil {
		r.say(fmt.Sprintf("[not an event: %v]\n", err))
	}
}

func (r *receiver) add(custom event.Custom) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := len(custom.Type) + len(custom.Data)
	if r.bytes+size > tool.MaxEventBytes {
		return fmt.Errorf("the events of a call have at most %d bytes", tool.MaxEventBytes)
	}
	r.events, r.bytes = append(r.events, custom), r.bytes+size
	r.show(custom)
	return nil
}

func (r *receiver) emitted() []event.Custom {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events
}

// eventTap finds the events in what a server sends. It reads the same bytes as the SDK does, and before that: the SDK may
// return the result of a call before it has handled the notifications that precede it, and a result must have all events of
// its call. A message is a line, of standard output or of an SSE stream.
type eventTap struct {
	calls *progress
	line  []byte
	long  bool // the rest of the line is not kept
}

// Write never fails.
func (t *eventTap) Write(piece []byte) (int, error) {
	size := len(piece)
	for len(piece) > 0 {
		part, rest, ended := bytes.Cut(piece, []byte{'\n'})
		piece = rest
		if t.long = t.long || len(t.line)+len(part) > maxNotification; t.long {
			t.line = nil
		} else {
			t.line = append(t.line, part...)
		}
		if ended {
			t.look(bytes.TrimPrefix(t.line, []byte("data:")))
			t.line, t.long = t.line[:0], false
		}
	}
	return size, nil
}

// look emits the event of a message, if it is a notification with one.
func (t *eventTap) look(line []byte) {
	if !bytes.Contains(line, []byte("notifications/progress")) && !bytes.Contains(line, []byte(`notifications\/progress`)) {
		return
	}
	var message struct {
		Method string `json:"method"`
		Params struct {
			Token   any                        `json:"progressToken"`
			Message string                     `json:"message"`
			Meta    map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	if jsonv2.Unmarshal(line, &message) != nil || message.Method != "notifications/progress" {
		return // the SDK judges it
	}
	to := t.calls.call(message.Params.Token)
	if to == nil {
		return
	}
	if text, ok := message.Params.Meta[EventKey]; ok {
		to.emit(text)
	}
	if text, ok := bytes.CutPrefix([]byte(message.Params.Message), []byte(eventline.Prefix)); ok {
		to.emit(text)
	}
}

// tapped is a body, or the output of a process, whose events are found as it is read.
type tapped struct {
	io.Reader
	io.Closer
}

// tap returns what a server sends; if its tools may emit events, these are found in it.
func (s *Source) tap(from io.ReadCloser) io.ReadCloser {
	if !s.options.Events {
		return from
	}
	return tapped{io.TeeReader(from, &eventTap{calls: &s.calls}), from}
}
