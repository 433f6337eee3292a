package check

import (
	"strings"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
)

// remotePrefix is how the names of remote agents begin.
const remotePrefix = "remote-"

// The rare paths of remote agents.
const (
	PathRemote      = "request to a remote agent"
	PathRemoteTaken = "request to a remote agent taken over"
	PathTask        = "task given to the hub"
	PathTaskAgain   = "task given without an answer, repeated"
	PathCancelled   = "task cancelled"
)

// remotes is I20: what a remote agent said, called and was given shows once in the log of its request, however often the
// agent, the runner and the hub were replaced; a task that the hub was given under one key is one task, and ends.
func (r *Run) remotes() []Violation {
	found := r.each(func(id ID, l *Log) []Violation {
		if l.Accepted == nil || !strings.HasPrefix(l.Accepted.AgentID, remotePrefix) || l.Terminal() != event.NameDone {
			return nil
		}
		if !r.firstOrBehindDone(id, l.Accepted.ThreadID) {
			return nil // its agent was sent what the thread said before, and does what is left of that too
		}
		return once(id, l)
	})
	return append(found, r.tasks()...)
}

// firstOrBehindDone reports whether every request before one on its thread is done.
func (r *Run) firstOrBehindDone(id ID, thread string) bool {
	for _, t := range r.Threads[ID{id.Tenant, thread}] {
		if t.RequestID == id.Name {
			return true
		}
		if r.Logs[ID{id.Tenant, t.RequestID}].Terminal() != event.NameDone {
			return false
		}
	}
	return true
}

// produced is what the blocks of a request that count contain.
type produced struct {
	text    string // of all blocks
	calls   []string
	results map[string]int // by call
}

func producedBy(l *Log) produced {
	p := produced{results: map[string]int{}}
	blocks := map[string]string{}
	var order []string
	l.each(func(body event.Body) {
		switch b := body.(type) {
		case event.Text:
			if _, ok := blocks[b.BlockID]; !ok {
				order = append(order, b.BlockID)
			}
			blocks[b.BlockID] += b.Delta
			if b.Discarded {
				blocks[b.BlockID] = ""
			}
		case event.ToolCall:
			if b.Stage == event.StageStop && !b.Discarded {
				p.calls = append(p.calls, b.ToolCallID)
			}
		case event.ToolResult:
			if b.Stage == event.StageStop && !b.Discarded {
				p.results[b.ToolCallID]++
			}
		}
	})
	for _, block := range order {
		p.text += blocks[block]
	}
	return p
}

// each visits the events of the log. It leaves out those that cannot be decoded: I2 reports them.
func (l *Log) each(visit func(event.Body)) {
	for _, f := range l.Frames {
		for line := range f.Each() {
			if e, err := event.Decode(line.JSON); err == nil {
				visit(e.Body)
			}
		}
	}
}

// once compares the blocks of a request that count with the script that it brought.
func once(id ID, l *Log) []Violation {
	got := producedBy(l)
	var found []Violation
	wanted := 0
	for line := range strings.Lines(promptOf(l)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "/say "); ok {
			if n := strings.Count(got.text, text); n != 1 {
				found = append(found, violation(id, "its agent was to say %q once, and the log has it %d times", text, n))
			}
		}
		if strings.HasPrefix(line, "/tool ") {
			wanted++
		}
	}
	if len(got.calls) != wanted {
		found = append(found, violation(id, "its agent was to call %d tools, and the log has %d calls", wanted, len(got.calls)))
	}
	for _, call := range got.calls {
		if got.results[call] != 1 {
			found = append(found, violation(id, "call %s of its agent has %d results", call, got.results[call]))
		}
	}
	return found
}

// promptOf is what the user said last.
func promptOf(l *Log) string {
	messages := l.Accepted.Request.Messages
	if len(messages) == 0 {
		return ""
	}
	var all strings.Builder
	for _, part := range messages[len(messages)-1].Content {
		all.WriteString(part.Text)
	}
	return all.String()
}

// tasks checks what the hub said of its tasks.
func (r *Run) tasks() []Violation {
	var found []Violation
	byKey := map[ID]string{}
	ended := map[ID]string{}
	owed := map[ID]bool{}
	for _, e := range r.of(oplog.Task) {
		id := ID{e.Tenant, e.Request}
		if e.Status == 404 && e.Request != "" {
			found = append(found, violation(id, "the hub has forgotten the task"))
		}
		if e.Status/100 != 2 || e.Request == "" {
			continue
		}
		owed[id] = true
		if key := (ID{e.Tenant, e.Key}); e.Key != "" {
			if first, ok := byKey[key]; ok && first != e.Request {
				found = append(found, violation(id, "key %s has made task %s as well", e.Key, first))
			}
			byKey[key] = e.Request
		}
		if isTaskEnd(e.Code) && !e.Cancel {
			if first := ended[id]; first != "" && first != e.Code {
				found = append(found, violation(id, "the task was %s, and is %s now", first, e.Code))
			}
			ended[id] = e.Code
		}
	}
	for _, id := range sorted(owed) {
		if ended[id] == "" {
			found = append(found, violation(id, "the task was given, and it never ended"))
		}
	}
	return found
}

func isTaskEnd(status string) bool {
	switch status {
	case "completed", "failed", "cancelled", "max_turns", "max_budget":
		return true
	}
	return false
}

// countRemotes counts the rare paths of remote agents.
func (r *Run) countRemotes(taken map[string]int) {
	for _, l := range r.Logs {
		if l.Accepted != nil && strings.HasPrefix(l.Accepted.AgentID, remotePrefix) && len(l.Frames) > 0 {
			taken[PathRemote]++
			taken[PathRemoteTaken] += Takeovers(l)
		}
	}
	unanswered, tasks := map[string]bool{}, map[string]bool{}
	for _, e := range r.of(oplog.Task) {
		switch {
		case e.Cancel && e.Status/100 == 2:
			taken[PathCancelled]++
		case e.Key != "" && e.Status == 0:
			unanswered[e.Key] = true
		case e.Key != "" && e.Status/100 == 2 && !tasks[e.Key]:
			tasks[e.Key] = true
			taken[PathTask]++
			if unanswered[e.Key] {
				taken[PathTaskAgain]++
			}
		}
	}
}
