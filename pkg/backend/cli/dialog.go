package cli

import (
	"encoding/json"
	"errors"
	"io"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/cli/wire"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxUnread bounds the responses that a program has not read.
const maxUnread = 64

// dialog is the standard input of Claude Code in its stream format: the prompt, then the responses to its requests. Its methods
// other than Read belong to the goroutine that reads the output.
type dialog struct {
	lines   chan []byte
	rest    []byte // of the line that is read
	closed  bool
	decided *permission.Decisions
	asked   []permission.Call // that wait for the user
	denied  map[string]string // by the id of a call that does not run, the text of its result; "" = the program's own
}

func newDialog(prompt string, decided *permission.Decisions) *dialog {
	d := &dialog{lines: make(chan []byte, maxUnread), decided: decided, denied: map[string]string{}}
	d.lines <- line(map[string]any{"type": "user", "message": map[string]string{"role": "user", "content": prompt}})
	return d
}

// line is a line of JSON.
func line(v any) []byte {
	text, err := jsonv2.Marshal(v, jsonv2.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if err != nil { // no value of this package
		return nil
	}
	return append(text, '\n')
}

// Read implements [io.Reader] for the process.
func (d *dialog) Read(p []byte) (int, error) {
	for len(d.rest) == 0 {
		next, open := <-d.lines
		if !open {
			return 0, io.EOF
		}
		d.rest = next
	}
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

// close ends the input. It may be called again.
func (d *dialog) close() {
	if !d.closed {
		close(d.lines)
	}
	d.closed = true
}

// answer responds to the requests of the output, and ends the input when the run is over.
func (d *dialog) answer(output wire.Decoder) error {
	for _, r := range output.Requests() {
		if d.closed {
			break
		}
		select {
		case d.lines <- d.respond(r):
		default:
			return errors.New("the program does not read the responses to its requests")
		}
	}
	if report := output.Report(); report.Finish != "" || report.Failure != "" {
		d.close()
	}
	return nil
}

// respond decides about a request. A call for which the user must decide is denied, and interrupts the turn.
func (d *dialog) respond(r wire.Request) []byte {
	if r.Tool == "" {
		return line(response{Type: "control_response", Response: outcome{Subtype: "error", ID: r.ID, Error: "this host serves permissions only"}})
	}
	result := verdict{Behavior: "deny"}
	call := permission.Call{Tool: r.Tool, Args: r.Args}
	switch d.decided.Take(call) {
	case permission.Allowed:
		result = verdict{Behavior: "allow", Input: r.Args}
	case permission.Denied:
		d.denied[r.CallID] = ""
		result.Message = "The user denied this call."
	default:
		if r.Tool == questionTool {
			result.Message = "The user cannot answer now. End your turn with the question; the next message has the answer."
			break
		}
		d.asked = append(d.asked, call)
		d.denied[r.CallID] = "it waits for the approval of the user"
		result.Message, result.Interrupt = "The user has not decided yet.", true
	}
	return line(response{Type: "control_response", Response: outcome{Subtype: "success", ID: r.ID, Response: &result}})
}

// questionTool asks the user to choose among answers, for which an approval has no room.
const questionTool = "AskUserQuestion"

// response is Claude Code's control_response.
type response struct {
	Type     string  `json:"type"`
	Response outcome `json:"response"`
}

type outcome struct {
	Subtype  string   `json:"subtype"`
	ID       string   `json:"request_id"`
	Response *verdict `json:"response,omitzero"`
	Error    string   `json:"error,omitzero"`
}

type verdict struct {
	Behavior  string          `json:"behavior"`
	Input     json.RawMessage `json:"updatedInput,omitzero"`
	Message   string          `json:"message,omitzero"`
	Interrupt bool            `json:"interrupt,omitzero"`
}

// waits reports whether calls wait for the user.
func (d *dialog) waits() bool { return d != nil && len(d.asked) > 0 }

// ended corrects the end of a call that was denied.
func (d *dialog) ended(c backend.Chunk) backend.Chunk {
	end, ok := c.(backend.ToolEnded)
	if !ok || d == nil {
		return c
	}
	content, denied := d.denied[end.ID]
	if !denied {
		return c
	}
	end.Status = event.ToolDenied
	if content != "" {
		end.Content = content
	}
	return end
}
