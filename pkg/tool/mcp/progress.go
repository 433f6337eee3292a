package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool/internal/eventline"
	jsonv2 "github.com/go-json-experiment/json"
)

// progress forwards the server's progress notifications to the running calls. Its zero value is ready for use.
type progress struct {
	count atomic.Uint64
	calls sync.Map // token → sink
}

// sink receives what a server reports of a call while it runs. Its methods never block.
type sink interface {
	say(line string)
	emit(text []byte) // an event, as JSON
}

// follow names a call for the server, until done.
func (p *progress) follow(callID string, to sink) (token string, done func()) {
	token = callID + "-" + strconv.FormatUint(p.count.Add(1), 36)
	p.calls.Store(token, to)
	return token, func() { p.calls.Delete(token) }
}

// call returns the running call that a notification names; nil = it has ended.
func (p *progress) call(token any) sink {
	name, ok := token.(string) // of a server that keeps to the protocol; a map's key must not be what anybody sends
	if !ok {
		return nil
	}
	to, _ := p.calls.Load(name)
	running, _ := to.(sink)
	return running
}

// maxNotification bounds the line of a notification. Longer lines are other messages.
const maxNotification = 2*event.MaxCustomBytes + 4<<10

// tap finds the progress notifications in what a server sends. It reads the same bytes as the SDK does, and before that: the SDK
// may return the result of a call before it has handled the notifications that precede it. A message is a line, of standard
// output or of an SSE stream.
type tap struct {
	calls  *progress
	events bool // tools may emit events

	line []byte
	long bool // the rest of the line is not kept
}

// tapped is a body, or the output of a process, with a tap.
type tapped struct {
	io.Reader
	io.Closer
}

// tap returns what a server sends, with a tap.
func (s *Source) tap(from io.ReadCloser) io.ReadCloser {
	return tapped{io.TeeReader(from, &tap{calls: &s.calls, events: s.options.Events}), from}
}

// Write never fails.
func (t *tap) Write(piece []byte) (int, error) {
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

const progressMethod = "notifications/progress"

// notification are the parameters of a progress notification.
type notification struct {
	Token    any                        `json:"progressToken"`
	Progress float64                    `json:"progress"`
	Total    float64                    `json:"total"`
	Message  string                     `json:"message"`
	Meta     map[string]json.RawMessage `json:"_meta"`
}

// look forwards a message that is a progress notification of a running call.
func (t *tap) look(line []byte) {
	if !bytes.Contains(line, []byte(progressMethod)) && !bytes.Contains(line, []byte(`notifications\/progress`)) {
		return
	}
	var message struct {
		Method string       `json:"method"`
		Params notification `json:"params"`
	}
	if jsonv2.Unmarshal(line, &message) != nil || message.Method != progressMethod {
		return // the SDK judges it
	}
	n := message.Params
	to := t.calls.call(n.Token)
	if to == nil {
		return
	}
	if t.events {
		emitted, emits := n.Meta[EventKey]
		if emits {
			to.emit(emitted)
		}
		if text, found := strings.CutPrefix(n.Message, eventline.Prefix); found {
			to.emit([]byte(text))
			return
		}
		if emits && n.Message == "" {
			return
		}
	}
	to.say(n.line())
}

// line is a notification as live output.
func (n notification) line() string {
	switch {
	case n.Message != "":
		return n.Message + "\n"
	case n.Total > 0:
		return fmt.Sprintf("%g of %g\n", n.Progress, n.Total)
	default:
		return fmt.Sprintf("%g\n", n.Progress)
	}
}
