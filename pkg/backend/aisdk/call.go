package aisdk

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// call is a tool call of the agent.
type call struct {
	id, name string
	note     note
	args     []byte
	printed  string // its newest preliminary output
	complete bool   // its arguments are
	running  bool
	handled  bool // it has ended, or became a call of ours
}

const maxArgs = 1 << 20 // bytes of the arguments of a call

// arguments are those of a call; an empty object for what is not an object.
func (c *call) arguments() json.RawMessage {
	if v := jsontext.Value(c.args); v.IsValid() && v.Kind() == '{' {
		return json.RawMessage(c.args)
	}
	return json.RawMessage("{}")
}

// waits reports whether a call of one of the agent's tools is complete, and it is not known whether it runs. Calls of the turn's
// tools wait for the end of the answer: agentbus, or the client, may have to run them.
func (r *reader) waits(c *call) bool {
	return c.complete && !c.running && !c.handled && !r.offered(c.name)
}

func (r *reader) offered(name string) bool {
	for _, t := range r.turn.Tools {
		if t.Name == name {
			return true
		}
	}
	return false
}

// startCalls reports the calls that wait as running.
func (r *reader) startCalls() error {
	for _, c := range r.order {
		if !r.waits(c) {
			continue
		}
		if err := r.start(c); err != nil {
			return err
		}
	}
	return nil
}

func (r *reader) start(c *call) error {
	if c.running || c.handled {
		return nil
	}
	if err := r.endProse(); err != nil {
		return err
	}
	c.running = true
	return r.emit(backend.ToolStarted{ID: c.id, Name: c.name, Args: c.arguments(), Signature: c.note.String()})
}

func (r *reader) end(c *call, status event.ToolStatus, content string) error {
	if err := r.start(c); err != nil {
		return err
	}
	c.handled = true
	return r.emit(backend.ToolEnded{ID: c.id, Status: status, Content: content})
}

// input takes a part of a call: its start, its arguments, or an error in them.
func (r *reader) input(ch chunk) error {
	c, err := r.called(ch)
	if err != nil {
		return err
	}
	if len(ch.ProviderMetadata) > 0 {
		c.note.Metadata = ch.ProviderMetadata
	}
	if c.complete {
		return nil
	}
	if len(c.args)+len(ch.InputTextDelta) > maxArgs || len(ch.Input) > maxArgs {
		return r.agent.Broke("the arguments of call %q are longer than %d bytes", ch.ToolCallID, maxArgs)
	}
	c.args = append(c.args, ch.InputTextDelta...)
	switch ch.Type {
	case toolInputAvailable:
		c.args, c.complete = ch.Input, true
	case toolInputError:
		c.args, c.complete = ch.Input, true
		if !c.handled {
			return r.end(c, event.ToolFailed, ch.ErrorText)
		}
	}
	return nil
}

// called returns the call of a chunk, a new one if it begins with the chunk.
func (r *reader) called(ch chunk) (*call, error) {
	if c := r.calls[ch.ToolCallID]; c != nil {
		return c, nil
	}
	if ch.ToolCallID == "" || ch.ToolName == "" {
		return nil, r.agent.Broke("%s %q has no start", ch.Type, ch.ToolCallID)
	}
	if err := r.startCalls(); err != nil {
		return nil, err
	}
	r.news++
	c := &call{id: ch.ToolCallID, name: ch.ToolName, note: note{
		Message: r.message, ID: ch.ToolCallID, Dynamic: ch.Dynamic, Provider: ch.ProviderExecuted,
	}}
	if r.repeat[c.id] {
		c.running, c.handled = true, true
		r.passed(c.id)
	}
	r.calls[c.id], r.order = c, append(r.order, c)
	return c, nil
}

// passed notes that the stream has repeated a call of the conversation: what follows the last one is new.
func (r *reader) passed(callID string) { delete(r.repeat, callID) }

// output takes the output of a call that the agent has run, or that was denied.
func (r *reader) output(ch chunk) error {
	c := r.calls[ch.ToolCallID]
	if c == nil {
		if c = r.allowed(ch.ToolCallID); c == nil {
			return nil // the log has its end
		}
	}
	if c.handled {
		return nil
	}
	r.news++
	switch {
	case ch.Type == toolOutputDenied:
		return r.end(c, event.ToolDenied, "the call was denied")
	case ch.Type == toolOutputError:
		return r.end(c, event.ToolFailed, ch.ErrorText)
	case ch.Preliminary:
		return r.print(c, text(ch.Output))
	}
	return r.end(c, event.ToolSuccess, text(ch.Output))
}

// print shows what a preliminary output adds to the one before.
func (r *reader) print(c *call, output string) error {
	if err := r.start(c); err != nil {
		return err
	}
	more, extends := strings.CutPrefix(output, c.printed)
	if !extends {
		more = output
	}
	c.printed = output
	if more == "" {
		return nil
	}
	return r.emit(backend.ToolProgress{ID: c.id, Delta: more})
}

// allowed returns a call of an earlier answer that the user has allowed and that has no output, nil if there is none.
func (r *reader) allowed(callID string) *call {
	var found *call
	results := map[string]event.ToolStatus{}
	for _, m := range slices.Backward(r.turn.Messages) {
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Result:
				results[p.ID] = p.Status
			case backend.Call:
				n := read(p.Signature)
				if n.ID != callID || found != nil {
					continue
				}
				if n.Approval == "" || results[p.ID] != event.ToolSuccess {
					return nil
				}
				n.Approval, n.Signature, n.Input = "", "", nil
				n.Message = r.message
				found = &call{id: callID, name: p.Name, note: n, args: p.Args, complete: true}
			}
		}
	}
	if found != nil {
		r.calls[callID], r.order = found, append(r.order, found)
	}
	return found
}

// ask begins an action for a call that needs the approval of the user. An automatic one is decided by the agent.
func (r *reader) ask(ch chunk) error {
	c := r.calls[ch.ToolCallID]
	if c == nil || ch.ApprovalID == "" {
		return r.agent.Broke("the request for an approval of call %q has no call, or no id", ch.ToolCallID)
	}
	if ch.IsAutomatic || c.handled {
		return nil
	}
	r.news++
	if c.running {
		if err := r.emit(backend.ToolEnded{ID: c.id, Status: event.ToolDenied, Content: "it waits for the approval of the user"}); err != nil {
			return err
		}
	}
	c.handled = true
	n := c.note
	n.Approval, n.Signature, n.Input = ch.ApprovalID, ch.Signature, ch.InputSchemaInput
	return r.leaveCall(c, backend.GateAgentApproval, n)
}

// leave passes on the calls of the turn's tools that have no output. Other calls without one count as running: the log shows their
// outcome as unknown.
func (r *reader) leave() error {
	for _, c := range r.order {
		if c.handled || c.running || !c.complete || !r.offered(c.name) {
			continue
		}
		c.handled = true
		if err := r.leaveCall(c, "", c.note); err != nil {
			return err
		}
	}
	return r.startCalls()
}

// leaveCall emits a whole call whose result the next turn has.
func (r *reader) leaveCall(c *call, gate backend.Gate, n note) error {
	if err := r.endProse(); err != nil {
		return err
	}
	i := r.asked
	r.asked++
	for _, one := range []backend.Chunk{
		backend.CallStart{Index: i, Name: c.name, Gate: gate}, backend.CallSignature{Index: i, Signature: n.String()},
		backend.CallDelta{Index: i, Args: string(c.arguments())},
	} {
		if err := r.emit(one); err != nil {
			return err
		}
	}
	return nil
}
