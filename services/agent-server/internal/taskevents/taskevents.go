// Package taskevents converts events to the TARS hub protocol: it turns the events of a log into those of a task's
// stream, and updates the task's record. It is pure: the same log gives the same result.
package taskevents

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

const (
	// maxInput is how long the arguments of a call may be that clients get to see.
	maxInput = 16 << 10
	// maxFiles is how many modified files a task lists.
	maxFiles = 1000
	// maxDenials is how many calls that were not permitted a task lists.
	maxDenials = 100
)

// Converter converts the events of one task. It is not safe for concurrent use.
type Converter struct {
	task  remoteagent.Task
	dir   string
	calls map[string]use // that have no result yet
	past  event.Usage    // of the task's requests before this one
	turns int            // of those
	text  text
}

// use is a tool at work.
type use struct {
	tool  string
	verb  verb
	files []string
	gate  event.ContinuationKind
	start *remoteagent.ToolStart // that clients have not got: the call waits for an action
}

// New returns a converter of a task that works in dir.
func New(task remoteagent.Task, dir string) *Converter {
	return &Converter{task: task, dir: dir, calls: map[string]use{}}
}

// Task is the task as the events have made it.
func (t *Converter) Task() remoteagent.Task {
	task := t.task
	task.FilesModified, task.Denials = slices.Clone(task.FilesModified), slices.Clone(task.Denials)
	return task
}

// Convert takes the next event of the log, and returns the events for clients.
func (t *Converter) Convert(e event.Event) []remoteagent.Body {
	t.task.UpdatedAt = e.Time.UTC()
	switch b := e.Body.(type) {
	case event.Text:
		return t.text.take(b.Block, b.Delta, b.Text)
	case event.FinalAnswer:
		return t.text.take(b.Block, b.Delta, b.Content)
	}
	bodies := t.encode(e)
	if len(bodies) > 0 {
		t.text = text{}
	}
	return bodies
}

// encode takes an event that has no text.
func (t *Converter) encode(e event.Event) []remoteagent.Body {
	switch b := e.Body.(type) {
	case event.ToolCall:
		return t.call(b)
	case event.ToolResult:
		return t.result(b)
	case event.UsageSoFar:
		return t.progress(b)
	case event.Done:
		return t.done(b, e.Time)
	case event.Aborted:
		return t.aborted(b, e.Time)
	case event.Error:
		return t.failed(b, e.Time)
	default:
		return nil
	}
}

// Begin says that the task runs.
func (t *Converter) Begin(at time.Time) remoteagent.Body {
	t.task.Status, t.task.UpdatedAt, t.task.Actions = remoteagent.Running, at.UTC(), nil
	return t.status()
}

// Ask says that the task waits for actions.
func (t *Converter) Ask(actions []remoteagent.Action, at time.Time) remoteagent.Body {
	t.task.Status, t.task.UpdatedAt, t.task.Actions = remoteagent.NeedsAction, at.UTC(), actions
	t.text = text{}
	return remoteagent.ActionRequired{
		Actions: actions, TurnsCompleted: t.task.TurnsCompleted, CostUSD: t.task.CostUSD, SessionID: t.task.SessionID, Usage: t.task.Usage,
	}
}

func (t *Converter) status() remoteagent.Progress {
	return remoteagent.Progress{
		Status: t.task.Status, TurnsCompleted: t.task.TurnsCompleted, CostUSD: t.task.CostUSD, Usage: t.task.Usage,
	}
}

// call returns the event of a tool call when its arguments are complete. That of a call which needs an action first is held back
// until the tool runs, or is denied.
func (t *Converter) call(b event.ToolCall) []remoteagent.Body {
	if b.Stage != event.StageStop || b.Discarded {
		return nil
	}
	verb := verbOf(b.Tool)
	args := argsOf(b.Args)
	u := use{tool: b.Tool, verb: verb, gate: b.Gate}
	for _, f := range args.files() {
		u.files = append(u.files, t.relative(f))
	}
	start := remoteagent.ToolStart{
		Tool: b.Tool, File: u.file(), ToolCallID: b.ToolCallID, Activity: verb.activity(b.Tool, u.file(), args),
	}
	if len(b.Args) <= maxInput {
		start.Input = b.Args
	}
	if b.Gate != "" {
		u.start = &start
		t.calls[b.ToolCallID] = u
		return nil
	}
	t.calls[b.ToolCallID] = u
	t.task.LastActivity = start.Activity
	return []remoteagent.Body{start}
}

func (t *Converter) result(b event.ToolResult) []remoteagent.Body {
	u := t.calls[b.ToolCallID]
	switch {
	case b.Stage == event.StageStart && u.gate == event.ContinueApproval:
		return t.held(b.ToolCallID)
	case b.Stage == event.StageDelta:
		return []remoteagent.Body{remoteagent.ToolOutput{Tool: u.tool, ToolCallID: b.ToolCallID, Text: b.Delta}}
	case b.Stage != event.StageStop || b.Discarded:
		return nil
	}
	defer delete(t.calls, b.ToolCallID)
	if u.gate == event.ContinueInput && b.Status == event.ToolSuccess {
		return nil // clients have the question as an action
	}
	bodies := t.held(b.ToolCallID)
	success, denied := b.Status == event.ToolSuccess, b.Status == event.ToolDenied
	if success && u.verb == editing {
		t.modified(u.files)
	}
	if denied && len(t.task.Denials) < maxDenials {
		t.task.Denials = append(t.task.Denials, remoteagent.Denial{
			Tool: b.Tool, File: u.file(), ToolCallID: b.ToolCallID, Reason: b.Summary,
		})
	}
	return append(bodies, remoteagent.ToolEnd{
		Tool: b.Tool, File: u.file(), Success: success, Denied: denied, ToolCallID: b.ToolCallID, Summary: b.Summary,
	})
}

// held returns the start of a call if it was held back.
func (t *Converter) held(callID string) []remoteagent.Body {
	u := t.calls[callID]
	if u.start == nil {
		return nil
	}
	start := *u.start
	u.start = nil
	t.calls[callID] = u
	t.task.LastActivity = start.Activity
	return []remoteagent.Body{start}
}

func (t *Converter) modified(files []string) {
	for _, f := range files {
		i, found := slices.BinarySearch(t.task.FilesModified, f)
		if !found && len(t.task.FilesModified) < maxFiles {
			t.task.FilesModified = slices.Insert(t.task.FilesModified, i, f)
		}
	}
}

func (t *Converter) progress(b event.UsageSoFar) []remoteagent.Body {
	t.task.TurnsCompleted = t.turns + b.Turns
	t.used(b.Usage)
	return []remoteagent.Body{t.status()}
}

func (t *Converter) used(u event.Usage) {
	sum := t.past.Add(u)
	t.task.CostUSD, t.task.Usage = sum.CostUSD, &sum
}

// done ends the task, unless an action is required: then another request continues it.
func (t *Converter) done(b event.Done, at time.Time) []remoteagent.Body {
	t.used(b.Usage)
	if b.FinishReason == event.FinishActionRequired {
		t.past, t.turns = t.past.Add(b.Usage), t.task.TurnsCompleted
		return nil
	}
	status, reason := ending(b.FinishReason)
	return t.end(status, reason, answer(b.Content), at)
}

func (t *Converter) aborted(b event.Aborted, at time.Time) []remoteagent.Body {
	if b.Usage != nil {
		t.used(*b.Usage)
	}
	return t.end(remoteagent.Cancelled, "cancelled", answer(b.Content), at)
}

func (t *Converter) end(status remoteagent.Status, reason, result string, at time.Time) []remoteagent.Body {
	if reason == endTurn && len(t.task.Denials) > 0 {
		reason = remoteagent.StopDenied
	}
	t.task.Status, t.task.StopReason, t.task.Result, t.task.CompletedAt = status, reason, result, at.UTC()
	t.task.Actions = nil
	return []remoteagent.Body{remoteagent.Result{
		Status: status, Result: result, CostUSD: t.task.CostUSD, TurnsCompleted: t.task.TurnsCompleted, StopReason: reason,
		FilesModified: slices.Clone(t.task.FilesModified), Denials: slices.Clone(t.task.Denials),
		SessionID: t.task.SessionID, Usage: t.task.Usage,
	}}
}

func (t *Converter) failed(b event.Error, at time.Time) []remoteagent.Body {
	if b.Usage != nil {
		t.used(*b.Usage)
	}
	t.task.Status, t.task.StopReason, t.task.CompletedAt = remoteagent.Failed, "error", at.UTC()
	t.task.Error, t.task.Recoverable, t.task.Actions = b.Message, b.Retryable, nil
	return []remoteagent.Body{remoteagent.Failure{
		Message: b.Message, Recoverable: b.Retryable, Code: b.Code, Status: remoteagent.Failed, CostUSD: t.task.CostUSD,
		TurnsCompleted: t.task.TurnsCompleted, SessionID: t.task.SessionID, Usage: t.task.Usage,
	}}
}

// endTurn is the reason of a task whose agent has said all that it had to say.
const endTurn = "end_turn"

// ending converts a finish reason to the TARS hub protocol.
func ending(finish event.FinishReason) (status remoteagent.Status, reason string) {
	switch finish {
	case event.FinishStop, event.FinishToolCalls, "":
		return remoteagent.Completed, endTurn
	case event.FinishLength:
		return remoteagent.Completed, "max_tokens"
	case event.FinishMaxTurns:
		return remoteagent.MaxTurns, "max_turns"
	case event.FinishBudget:
		return remoteagent.MaxBudget, "max_budget"
	default:
		return remoteagent.Completed, string(finish)
	}
}

// answer is what the agent has said since its last call of a tool, or all that it said when that is nothing.
func answer(content []event.Content) string {
	var all, last []string
	for _, c := range content {
		switch c.Type {
		case event.ContentText:
			all, last = append(all, c.Text), append(last, c.Text)
		case event.ContentToolUse, event.ContentToolResult:
			last = nil
		}
	}
	if len(last) == 0 {
		last = all
	}
	return strings.Join(last, "\n\n")
}

func (u use) file() string {
	if len(u.files) == 0 {
		return ""
	}
	return u.files[0]
}

// relative names a file as people do who work in the task's folder.
func (t *Converter) relative(file string) string {
	inside, err := filepath.Rel(t.dir, file)
	if !filepath.IsAbs(file) || err != nil || !filepath.IsLocal(inside) {
		return filepath.Clean(file)
	}
	return filepath.ToSlash(inside)
}

// EarlierTurns counts the turns of the task's requests that have ended before the one that runs.
func (t *Converter) EarlierTurns() int { return t.turns }

// EarlierCost is what those have cost, in US dollars.
func (t *Converter) EarlierCost() float64 { return t.past.CostUSD }
