package backendtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// Answer is what one turn produced, put together.
type Answer struct {
	Text      string
	Thinking  string
	Signature string
	Calls     []Call // in the order of their starts
	Tools     []Tool // that the agent ran by itself, in the order of their starts
	Warnings  []string
	Chunks    []backend.Chunk // everything, as it came
	Outcome   backend.Outcome
}

// Call is a tool call of an Answer.
type Call struct {
	Index int
	Name  string
	Gate  backend.Gate
	Args  string // JSON text

	Signature string
}

// Tool is one that an agent ran by itself.
type Tool struct {
	ID, Name string
	Ended    bool
}

// Ask runs one turn and collects its answer, also if the turn fails. Chunks that violate the contract are an error that
// [errors.Is] reports as ErrMalformed.
func Ask(ctx context.Context, b backend.Model, turn backend.Turn) (Answer, error) {
	var a Answer
	outcome, err := b.Run(ctx, turn, a.add)
	a.Outcome = outcome
	if err != nil {
		return a, err
	}
	return a, a.check()
}

// ErrMalformed is the error of a turn whose chunks break the rules of the door.
var ErrMalformed = errors.New("malformed answer")

func (a *Answer) add(c backend.Chunk) error {
	a.Chunks = append(a.Chunks, c)
	switch c := c.(type) {
	case backend.TextDelta:
		a.Text += string(c)
		return whole("text delta", string(c))
	case backend.ThinkingDelta:
		a.Thinking += string(c)
		return whole("thinking delta", string(c))
	case backend.Signature:
		a.Signature += string(c)
		return whole("signature", string(c))
	case backend.TextSignature:
		return whole("text signature", string(c))
	case backend.CallSignature:
		call := a.call(c.Index)
		if call == nil {
			return fmt.Errorf("%w: call %d is signed before it starts", ErrMalformed, c.Index)
		}
		call.Signature = c.Signature
		return whole("call signature", c.Signature)
	case backend.CallStart:
		return a.start(c)
	case backend.CallDelta:
		return a.extend(c)
	case backend.Custom:
		if _, err := event.NewCustom(c.Type, c.Data); err != nil {
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		return nil
	case backend.ToolStarted:
		return a.startTool(c)
	case backend.ToolProgress:
		return a.tool(c.ID, false)
	case backend.ToolEnded:
		return a.tool(c.ID, true)
	case backend.Step, backend.State, backend.Plan:
		return nil
	case backend.Warning:
		a.Warnings = append(a.Warnings, string(c))
		return whole("warning", string(c))
	default:
		return fmt.Errorf("%w: chunk of unknown type %T", ErrMalformed, c)
	}
}

func (a *Answer) startTool(c backend.ToolStarted) error {
	if c.Name == "" || len(c.Args) > 0 && jsontext.Value(c.Args).Kind() != '{' {
		return fmt.Errorf("%w: tool %s has the name %q and the arguments %s", ErrMalformed, c.ID, c.Name, c.Args)
	}
	if slices.ContainsFunc(a.Tools, func(t Tool) bool { return t.ID == c.ID }) {
		return fmt.Errorf("%w: tool %s starts twice", ErrMalformed, c.ID)
	}
	a.Tools = append(a.Tools, Tool{ID: c.ID, Name: c.Name})
	return nil
}

// tool handles a chunk of a tool, which must be running.
func (a *Answer) tool(id string, ended bool) error {
	i := slices.IndexFunc(a.Tools, func(t Tool) bool { return t.ID == id })
	if i < 0 || a.Tools[i].Ended {
		return fmt.Errorf("%w: tool %s does not run", ErrMalformed, id)
	}
	a.Tools[i].Ended = ended
	return nil
}

func (a *Answer) start(c backend.CallStart) error {
	if c.Name == "" {
		return fmt.Errorf("%w: call %d has no name", ErrMalformed, c.Index)
	}
	if a.call(c.Index) != nil {
		return fmt.Errorf("%w: call %d starts twice", ErrMalformed, c.Index)
	}
	a.Calls = append(a.Calls, Call{Index: c.Index, Name: c.Name, Gate: c.Gate})
	return nil
}

func (a *Answer) extend(c backend.CallDelta) error {
	call := a.call(c.Index)
	if call == nil {
		return fmt.Errorf("%w: call %d continues before it starts", ErrMalformed, c.Index)
	}
	call.Args += c.Args
	return whole("call delta", c.Args)
}

func (a *Answer) call(index int) *Call {
	for i := range a.Calls {
		if a.Calls[i].Index == index {
			return &a.Calls[i]
		}
	}
	return nil
}

// check checks the rules that apply to a complete turn.
func (a *Answer) check() error {
	for _, c := range a.Calls {
		if args := json.RawMessage(c.Args); !jsontext.Value(args).IsValid() || jsontext.Value(args).Kind() != '{' {
			return fmt.Errorf("%w: arguments of call %d are not a JSON object: %q", ErrMalformed, c.Index, c.Args)
		}
	}
	if called, said := len(a.Calls) > 0, a.Outcome.Finish == event.FinishToolCalls; called != said {
		return fmt.Errorf("%w: %d calls, but the turn finished with %q", ErrMalformed, len(a.Calls), a.Outcome.Finish)
	}
	return nil
}

func whole(what, s string) error {
	if s == "" {
		return fmt.Errorf("%w: empty %s", ErrMalformed, what)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: %s is not UTF-8: %q", ErrMalformed, what, s)
	}
	return nil
}

// Messages returns the conversation of turn with a's calls and one result for each of them: the turn that comes next.
func (a *Answer) Messages(turn backend.Turn, result string) []backend.Message {
	said := backend.Message{Role: backend.Assistant}
	if a.Thinking != "" {
		said.Parts = append(said.Parts, backend.Thinking{Text: a.Thinking, Signature: a.Signature})
	}
	if strings.TrimSpace(a.Text) != "" {
		said.Parts = append(said.Parts, backend.Text{Text: a.Text})
	}
	results := backend.Message{Role: backend.Tool}
	for _, c := range a.Calls {
		id := fmt.Sprintf("call_%d", c.Index)
		said.Parts = append(said.Parts, backend.Call{ID: id, Name: c.Name, Args: json.RawMessage(c.Args), Signature: c.Signature})
		results.Parts = append(results.Parts,
			backend.Result{ID: id, Name: c.Name, Content: result, Status: event.ToolSuccess})
	}
	next := append([]backend.Message{}, turn.Messages...)
	return append(next, said, results)
}
