package task

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

const (
	maxLines = 1000 // that are kept of a task
	maxLine  = 500  // characters
)

// progress is the progress of a task for people (TARS hub protocol, What the User Sees). It is safe for concurrent use.
type progress struct {
	mu      sync.Mutex
	lines   []string
	dropped int // lines before the first
	text    string
	task    hubapi.Task
	changed chan struct{} // closed and replaced at every change
}

func (p *progress) init(t store.Task) {
	p.task, p.changed = told(t, true), make(chan struct{})
	p.lines = []string{hubapi.Working(t.AgentName)}
}

// observe turns an event into lines, and returns the agent's current activity if the event has it.
func (p *progress) observe(body remoteagent.Body) (activity string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := body.(type) {
	case remoteagent.TextDelta:
		p.speak(e.Text)
	case remoteagent.ToolStart:
		p.flush()
		activity = cmp.Or(e.Activity, strings.TrimSpace(e.Tool+" "+e.File))
		p.add("> " + activity)
	case remoteagent.ToolEnd:
		if !e.Success {
			p.add("> " + strings.TrimSpace(e.Tool+" "+e.File) + " failed: " + cmp.Or(e.Summary, "no reason was given"))
		}
	case remoteagent.ActionRequired:
		p.flush()
		for _, a := range e.Actions {
			p.add("> " + hubapi.Needs(a))
		}
	default:
		return ""
	}
	p.wake()
	return activity
}

func (p *progress) say(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flush()
	p.add(line)
	p.wake()
}

// update sets the state of the task; the last line is how it ended.
func (p *progress) update(t hubapi.Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.task = t
	if !t.CompletedAt.IsZero() {
		p.flush()
		p.add(hubapi.Done(t))
	}
	p.wake()
}

// speak adds to the text, and completes lines.
func (p *progress) speak(text string) {
	p.text += text
	for {
		line, rest, whole := strings.Cut(p.text, "\n")
		if !whole {
			break
		}
		p.text = rest
		p.sentence(line)
	}
	if len(p.text) > 4*maxLine {
		p.flush()
	}
}

func (p *progress) flush() {
	p.sentence(p.text)
	p.text = ""
}

func (p *progress) sentence(line string) {
	if line = strings.TrimSpace(line); line != "" {
		p.add("> " + line)
	}
}

func (p *progress) add(line string) {
	if runes := []rune(line); len(runes) > maxLine {
		line = string(runes[:maxLine-1]) + "…"
	}
	if p.lines = append(p.lines, line); len(p.lines) > maxLines {
		p.lines = p.lines[1:]
		p.dropped++
	}
}

func (p *progress) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// follow returns the lines from number after on: at once when there are some or the task has ended, and else as soon as
// there are, or after hub.FollowWait.
func (p *progress) follow(ctx context.Context, after int) hubapi.Progress {
	timer := time.NewTimer(hubapi.FollowWait)
	defer timer.Stop()
	for {
		now, changed := p.since(after)
		if len(now.Lines) > 0 || !now.Task.CompletedAt.IsZero() {
			return now
		}
		select {
		case <-changed:
		case <-timer.C:
			return now
		case <-ctx.Done():
			return now
		}
	}
}

func (p *progress) since(after int) (hubapi.Progress, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := min(max(after-p.dropped, 0), len(p.lines))
	lines := append([]string(nil), p.lines[from:]...)
	return hubapi.Progress{Lines: lines, Next: p.dropped + len(p.lines), Task: p.task}, p.changed
}
