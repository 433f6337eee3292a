package taskevents_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/taskevents"
)

// callEvents returns the events of one call.
func callEvents(t *taskevents.Converter, tool, args string) (start remoteagent.ToolStart, end remoteagent.ToolEnd) {
	at := event.Block{BlockID: "b1", Stage: event.StageStop}
	call := event.ToolCall{Block: at, ToolCallID: "call_1", Tool: tool, Args: json.RawMessage(args)}
	result := event.ToolResult{Block: at, ToolCallID: "call_1", Tool: tool, Status: event.ToolSuccess}
	for _, body := range []event.Body{call, result} {
		for _, told := range t.Convert(event.Event{Time: time.Now(), Body: body}) {
			switch told := told.(type) {
			case remoteagent.ToolStart:
				start = told
			case remoteagent.ToolEnd:
				end = told
			}
		}
	}
	return start, end
}

func TestToolsAreDescribedForUsers(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, tool, args, activity, file, modified string }{
		{"a command", "Bash", `{"command":"npm test"}`, "Running: npm test", "", ""},
		{"a command in words", "command_execution", `{"command":["go","test"]}`, "Running: go test", "", ""},
		{"a command of several lines", "Bash", `{"command":"a\n\tb"}`, "Running: a b", "", ""},
		{"a long command", "Bash", `{"command":"` + strings.Repeat("é", 500) + `"}`, "Running: " + strings.Repeat("é", 110) + "…", "", ""},
		{"an edit", "Edit", `{"file_path":"/work/app/src/a.ts"}`, "Editing src/a.ts", "src/a.ts", "src/a.ts"},
		{"a file elsewhere", "Write", `{"file_path":"/etc/hosts"}`, "Editing /etc/hosts", "/etc/hosts", "/etc/hosts"},
		{"a tool of ours", "write_file", `{"path":"./a/../b.go","content":""}`, "Editing b.go", "b.go", "b.go"},
		{"changes of files", "file_change", `{"changes":[{"path":"a"},{"path":"b"},{"path":"a"}]}`, "Editing a", "a", "a b"},
		{"reading", "Read", `{"file_path":"/work/app/a"}`, "Reading a", "a", ""},
		{"searching", "Grep", `{"pattern":"func main"}`, "Searching for func main", "", ""},
		{"a tool of a server of tools", "files__read_file", `{"path":"a"}`, "Reading a", "a", ""},
		{"an unknown tool", "credit_check", `{"name":"x"}`, "Using credit_check", "", ""},
		{"invalid arguments", "Edit", `{"file_path":7}`, "Using Edit", "", ""},
	}
	for _, test := range tests {
		converter := taskevents.New(remoteagent.Task{}, "/work/app")
		start, end := callEvents(converter, test.tool, test.args)
		if start.Activity != test.activity || start.File != test.file || end.File != test.file || !end.Success {
			t.Errorf("%s: got %+v and %+v", test.name, start, end)
		}
		if got := strings.Join(converter.Task().FilesModified, " "); got != test.modified {
			t.Errorf("%s: %q was modified, want %q", test.name, got, test.modified)
		}
	}
}

func TestLongArgumentsAreLeftOut(t *testing.T) {
	t.Parallel()
	start, _ := callEvents(taskevents.New(remoteagent.Task{}, "/"), "Write", `{"path":"a","content":"`+strings.Repeat("x", 20<<10)+`"}`)
	if start.File != "a" || start.Input != nil {
		t.Errorf("got %d bytes of input", len(start.Input))
	}
}

// A task that waits for an answer continues in another request: the usage of both is added.
func TestRequestsOfATaskAddUp(t *testing.T) {
	t.Parallel()
	converter := taskevents.New(remoteagent.Task{}, "/")
	say := func(body event.Body) []remoteagent.Body {
		return converter.Convert(event.Event{Time: time.Now(), Body: body})
	}
	one := event.Usage{OutputTokens: 3, CostUSD: 0.25}
	say(event.UsageSoFar{Usage: one, Turns: 2})
	if told := say(event.Done{Usage: one, FinishReason: event.FinishActionRequired}); told != nil {
		t.Errorf("got %+v", told)
	}
	say(event.UsageSoFar{Usage: one, Turns: 1})
	content := []event.Content{
		{Type: event.ContentText, Text: "before"}, {Type: event.ContentToolUse}, {Type: event.ContentText, Text: "a"}, {Type: event.ContentText, Text: "b"},
	}
	told := say(event.Done{Usage: one, FinishReason: event.FinishLength, Content: content})
	task := converter.Task()
	if task.TurnsCompleted != 3 || task.CostUSD != 0.5 || task.Usage.OutputTokens != 6 || task.Result != "a\n\nb" ||
		task.Status != remoteagent.Completed || task.StopReason != "max_tokens" {
		t.Errorf("got %+v", task)
	}
	if len(told) != 1 || !slices.ContainsFunc(told, remoteagent.IsTerminal) {
		t.Errorf("got %+v", told)
	}
}
