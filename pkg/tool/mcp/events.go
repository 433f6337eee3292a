package mcp

import (
	"fmt"
	"sync"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/internal/eventline"
)

// EventKey is the key of an event in the _meta of a progress notification: {"type": …, "data": {…}}.
const EventKey = "agentbus/event"

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
