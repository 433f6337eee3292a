package wire

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Codex decodes `codex exec --json`.
func Codex() Decoder { return newLines(&codex{running: map[string]string{}}) }

// codex holds what lines refer back to.
type codex struct {
	running map[string]string // by item, what the tool has printed so far
	text    map[string]string // by item, what has been said of it
	spoke   string            // the item that spoke last; "" = another chunk came since
}

type codexLine struct {
	Type    string    `json:"type"`
	Thread  string    `json:"thread_id"`
	Item    codexItem `json:"item"`
	Message string    `json:"message"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
	Usage struct {
		Input     int64 `json:"input_tokens"`
		Cached    int64 `json:"cached_input_tokens"`
		Output    int64 `json:"output_tokens"`
		Reasoning int64 `json:"reasoning_output_tokens"`
	} `json:"usage"`
}

type codexItem struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Message  string          `json:"message"`
	Status   string          `json:"status"`
	Command  string          `json:"command"`
	Output   string          `json:"aggregated_output"`
	ExitCode *int            `json:"exit_code"`
	Changes  json.RawMessage `json:"changes"`
	Server   string          `json:"server"`
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"arguments"`
	Result   json.RawMessage `json:"result"`
	Error    json.RawMessage `json:"error"`
	Query    string          `json:"query"`
	Items    []struct {
		Text      string `json:"text"`
		Completed bool   `json:"completed"`
	} `json:"items"`
}

func (c *codex) read(line json.RawMessage, out *output) error {
	var l codexLine
	decode(line, &l)
	r := &out.report
	if l.Type != "error" {
		r.Stalled = ""
	}
	switch l.Type {
	case "thread.started":
		r.SessionID = l.Thread
	case "item.started", "item.updated", "item.completed":
		c.item(l.Item, l.Type == "item.completed", out)
	case "turn.completed":
		r.Finish, r.Failure, r.Total = event.FinishStop, "", true
		r.Used = event.Usage{
			InputTokens: l.Usage.Input, CachedInputTokens: l.Usage.Cached,
			OutputTokens: l.Usage.Output, ReasoningTokens: l.Usage.Reasoning,
		}
	case "turn.failed":
		r.Failure = cmp.Or(note(l.Error.Message), "the turn failed")
	case "error":
		// Not the end: the program may continue, or repeat the message.
		if r.Stalled != note(l.Message) {
			out.emit(backend.Warning("the agent said: " + note(l.Message)))
		}
		r.Stalled = note(l.Message)
	}
	r.Missing = SaysMissing(r.Failure)
	return nil
}

func (c *codex) item(i codexItem, completed bool, out *output) {
	switch i.Type {
	case "agent_message":
		c.say(i, out)
	case "reasoning":
		c.think(i, completed, out)
	case "todo_list":
		plan := backend.Plan{}
		for _, step := range i.Items {
			plan.Steps = append(plan.Steps, event.PlanStep{Content: step.Text, Done: step.Completed})
		}
		out.emit(plan)
	case "error":
		if completed {
			out.emit(backend.Warning("the agent said: " + note(i.Message)))
		}
	default:
		if t, ok := i.call(); ok {
			c.tool(i, t, completed, out)
		}
	}
}

// say emits the text that an item has gained. Consecutive messages are separate paragraphs.
func (c *codex) say(i codexItem, out *output) {
	before := c.text[i.ID]
	if !strings.HasPrefix(i.Text, before) || i.Text == before {
		return
	}
	gained := i.Text[len(before):]
	if c.spoke != "" && c.spoke != i.ID {
		gained = "\n\n" + gained
	}
	c.spoke = i.ID
	c.text = map[string]string{i.ID: i.Text}
	out.emit(backend.TextDelta(gained))
}

func (c *codex) think(i codexItem, completed bool, out *output) {
	if !completed || i.Text == "" {
		return
	}
	c.spoke = ""
	out.emit(backend.ThinkingDelta(i.Text + "\n"))
}

// call is the tool that an item runs.
func (i codexItem) call() (backend.ToolStarted, bool) {
	t := backend.ToolStarted{ID: i.ID, Name: i.Type}
	switch i.Type {
	case "command_execution":
		t.Args = members("command", i.Command)
	case "file_change":
		t.Args = json.RawMessage(`{"changes":` + cmp.Or(string(i.Changes), "[]") + `}`)
	case "mcp_tool_call":
		t.Name, t.Args = strings.Trim(i.Server+"."+i.Tool, "."), object(i.Args)
	case "web_search":
		t.Args = members("query", i.Query)
	default: // a kind of a newer version is skipped
		return t, false
	}
	return t, i.ID != ""
}

func (c *codex) tool(i codexItem, t backend.ToolStarted, completed bool, out *output) {
	printed, running := c.running[i.ID]
	if !running {
		c.spoke = ""
		out.emit(t)
		if len(c.running) == 0 {
			out.emit(backend.Step{Model: out.report.Model})
		}
		c.running[i.ID] = ""
	}
	if !completed {
		if strings.HasPrefix(i.Output, printed) && i.Output != printed {
			out.emit(backend.ToolProgress{ID: i.ID, Delta: i.Output[len(printed):]})
			c.running[i.ID] = i.Output
		}
		return
	}
	delete(c.running, i.ID)
	failed := i.Status == "failed" || i.Status == "declined" || i.ExitCode != nil && *i.ExitCode != 0
	ended := backend.ToolEnded{ID: i.ID, Status: status(failed), Content: i.content()}
	if i.Status == "declined" {
		ended.Status = event.ToolDenied
	}
	out.emit(ended)
}

// content is what an item's tool has given.
func (i codexItem) content() string {
	if i.Output != "" {
		return i.Output
	}
	for _, v := range []json.RawMessage{i.Error, i.Result} {
		if jsontext.Value(v).Kind() == '{' {
			return string(v)
		}
	}
	return i.Status
}

func (c *codex) end(out *output) {
	r := &out.report
	if r.Finish == "" && r.Failure == "" {
		r.Failure = r.Stalled
	}
}

// members is an object with one member.
func members(name, value string) json.RawMessage {
	text, err := jsonv2.Marshal(map[string]string{name: strings.ToValidUTF8(value, "\uFFFD")})
	if err != nil {
		return nil
	}
	return text
}
