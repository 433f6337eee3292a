// Package permission lets users decide about the calls of agents that run their own tools. The process of the agent does not
// wait for the decision: its turn ends with an approval for each call ([Ask]). The next turn starts with the decisions
// ([Conversation]), and the agent may make an allowed call once ([Decisions.Take]).
package permission

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	jsonv2 "github.com/go-json-experiment/json"
)

// Mode says which calls an agent may make without a decision. Those other than Ask are the permission modes of tasks (TARS hub
// protocol, POST /tasks).
type Mode string

// The modes.
const (
	Ask     Mode = "ask"               // none that the agent asks for: the user decides
	Reading Mode = "default"           // those that only read
	Edits   Mode = "acceptEdits"       // and those that edit files
	All     Mode = "bypassPermissions" // all
)

// Task is what a task of an agent-server permits. [backend.Turn.Options] has it.
type Task struct {
	Mode      Mode     `json:"permissionMode"` // "" = the turn is of no task
	Tools     []string `json:"allowedTools"`   // that need no permission
	Approvals string   `json:"approvals"`      // "ask" = the user decides about what the mode does not permit
}

// TaskOf returns the task of a turn. Options of other backends are not read.
func TaskOf(options json.RawMessage) Task {
	var t Task
	if jsonv2.Unmarshal(options, &t) != nil {
		return Task{}
	}
	return t
}

// Asks reports whether the user decides about calls that the agent asks for; configured is the mode of the agent.
func (t Task) Asks(configured Mode) bool {
	if t.Mode == "" {
		return configured == Ask
	}
	return t.Approvals == "ask"
}

// signature marks the calls by which a turn asks.
const signature = "permission"

// Call is a call for which an agent needs a permission.
type Call struct {
	Tool string
	Args json.RawMessage // an object
}

// Pose ends a turn with an approval for each call. The outcome of the turn is [event.FinishToolCalls].
func Pose(emit backend.Emit, calls []Call) error {
	for i, c := range calls {
		for _, chunk := range []backend.Chunk{
			backend.CallStart{Index: i, Name: c.Tool, Gate: backend.GateAgentApproval},
			backend.CallDelta{Index: i, Args: string(c.Args)},
			backend.CallSignature{Index: i, Signature: signature},
		} {
			if err := emit(chunk); err != nil {
				return err
			}
		}
	}
	return nil
}

// Verdict is what became of a call for which a permission was asked.
type Verdict string

// The verdicts.
const (
	Open    Verdict = ""        // the user has not decided, or about other arguments
	Allowed Verdict = "allowed" // the agent may make the call, once
	Denied  Verdict = "denied"
)

// Decisions are those that users have made since the newest turn of the agent.
type Decisions struct{ verdicts map[string][]Verdict }

// Of returns the decisions at the end of a conversation.
func Of(messages []backend.Message) *Decisions {
	d := &Decisions{verdicts: map[string][]Verdict{}}
	asked := map[string]backend.Call{}
	for _, m := range messages {
		if m.Role == backend.Assistant {
			clear(d.verdicts) // they were for the turns before
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Call:
				if p.Signature == signature {
					asked[p.ID] = p
				}
			case backend.Result:
				c, ok := asked[p.ID]
				if v := verdict(p); ok && v != Open {
					k := key(Call{Tool: c.Name, Args: c.Args})
					d.verdicts[k] = append(d.verdicts[k], v)
				}
			}
		}
	}
	delete(d.verdicts, "")
	return d
}

// verdict reads the decision that the result of an approval is. An action that has expired, or that a message has superseded, is
// open.
func verdict(r backend.Result) Verdict {
	switch {
	case r.Status == event.ToolSuccess:
		return Allowed
	case strings.HasPrefix(r.Content, "the user denied"):
		return Denied
	default:
		return Open
	}
}

// key identifies a call with its arguments; "" if the arguments are not valid.
func key(c Call) string {
	hash, err := record.HashArgs(c.Args)
	if err != nil {
		return ""
	}
	return hash + c.Tool
}

// Take returns the decision about a call with exactly these arguments. A permission counts once.
func (d *Decisions) Take(c Call) Verdict {
	k := key(c)
	verdicts := d.verdicts[k]
	if len(verdicts) == 0 {
		return Open
	}
	if verdicts[0] == Allowed {
		d.verdicts[k] = verdicts[1:]
	}
	return verdicts[0]
}

// Conversation returns the messages that a session has not received, of which it has the first known ones. Decisions about
// calls become messages of the user; those since the newest turn of the agent are always new to the session.
func Conversation(messages []backend.Message, known int) []backend.Message {
	newest := 0
	for i, m := range messages {
		if m.Role == backend.Assistant {
			newest = i
		}
	}
	asked := map[string]backend.Call{}
	var fresh []backend.Message
	for i, m := range messages {
		rest, decisions := split(m, asked)
		if i >= known && (len(rest.Parts) > 0 || len(decisions.Parts) == 0) {
			fresh = append(fresh, rest)
		}
		if len(decisions.Parts) > 0 && (i >= known || i > newest) {
			fresh = append(fresh, decisions)
		}
	}
	return fresh
}

// split separates the decisions in a message from its other parts. asked collects the calls that they are about.
func split(m backend.Message, asked map[string]backend.Call) (rest, decisions backend.Message) {
	rest, decisions = backend.Message{Role: m.Role, Refused: m.Refused}, backend.Message{Role: backend.User}
	for _, p := range m.Parts {
		switch part := p.(type) {
		case backend.Call:
			if part.Signature == signature {
				asked[part.ID] = part
			}
		case backend.Result:
			if c, ok := asked[part.ID]; ok {
				decisions.Parts = append(decisions.Parts, backend.Text{Text: sentence(c, part)})
				continue
			}
		}
		rest.Parts = append(rest.Parts, p)
	}
	return rest, decisions
}

func sentence(c backend.Call, r backend.Result) string {
	if verdict(r) == Allowed {
		return fmt.Sprintf("The user has allowed this call, which was cancelled before: %s %s. Make it again, with the same arguments, and continue.",
			c.Name, c.Args)
	}
	return fmt.Sprintf("The user has not allowed this call: %s %s. The reason: %s", c.Name, c.Args, r.Content)
}
