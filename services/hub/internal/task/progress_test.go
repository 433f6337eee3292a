package task

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

func newProgress() *progress {
	p := new(progress)
	p.init(store.Task{AgentName: "VM 1", Status: remoteagent.Running})
	return p
}

func TestProgressLines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		events []remoteagent.Body
		want   []string // after the first line
	}{
		{"a text becomes lines at its line breaks", []remoteagent.Body{
			remoteagent.TextDelta{Text: "one\ntw"}, remoteagent.TextDelta{Text: "o\nthree"},
		}, []string{"> one", "> two"}},
		{"empty lines are left out", []remoteagent.Body{remoteagent.TextDelta{Text: "\n \n\none\n"}}, []string{"> one"}},
		{"a tool ends the line", []remoteagent.Body{
			remoteagent.TextDelta{Text: "half"}, remoteagent.ToolStart{Tool: "edit", File: "main.go"},
		}, []string{"> half", "> edit main.go"}},
		{"a tool with an activity", []remoteagent.Body{remoteagent.ToolStart{Tool: "edit", Activity: "Editing main.go"}}, []string{"> Editing main.go"}},
		{"a tool that succeeds has no line", []remoteagent.Body{remoteagent.ToolEnd{Tool: "edit", Success: true}}, nil},
		{"a tool that fails", []remoteagent.Body{
			remoteagent.ToolEnd{Tool: "edit", File: "a.go", Summary: "no space"}, remoteagent.ToolEnd{Tool: "run"},
		}, []string{"> edit a.go failed: no space", "> run failed: no reason was given"}},
		{"a long text without line breaks becomes a line", []remoteagent.Body{
			remoteagent.TextDelta{Text: strings.Repeat("é", 2*maxLine+1)},
		}, []string{"> " + strings.Repeat("é", maxLine-3) + "…"}},
		{"other events have no line", []remoteagent.Body{remoteagent.Progress{TurnsCompleted: 1}}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProgress()
			for _, e := range test.events {
				p.observe(e)
			}
			want := append([]string{hubapi.Working("VM 1")}, test.want...)
			if got, _ := p.since(0); !slices.Equal(got.Lines, want) || got.Next != len(want) {
				t.Errorf("got %q and next %d, want %q", got.Lines, got.Next, want)
			}
		})
	}
}

func TestTheEndIsTheLastLine(t *testing.T) {
	t.Parallel()
	p := newProgress()
	p.observe(remoteagent.TextDelta{Text: "half"})
	ended := hubapi.Task{CompletedAt: time.Now()}
	ended.Status, ended.TurnsCompleted = remoteagent.Completed, 2
	p.update(ended)
	got, _ := p.since(1)
	if want := []string{"> half", hubapi.Done(ended)}; !slices.Equal(got.Lines, want) || got.Task.CompletedAt.IsZero() {
		t.Errorf("got %q, want %q and that the task has ended", got.Lines, want)
	}
}

func TestOldLinesAreDropped(t *testing.T) {
	t.Parallel()
	p := newProgress()
	for i := range maxLines + 10 { // the first line makes one more
		p.say(fmt.Sprint("line ", i))
	}
	all, _ := p.since(0)
	if len(all.Lines) != maxLines || all.Next != maxLines+11 || all.Lines[0] != "line 10" {
		t.Errorf("got %d lines from %q and next %d, want the newest %d", len(all.Lines), all.Lines[0], all.Next, maxLines)
	}
	rest, _ := p.since(all.Next - 2)
	if want := []string{fmt.Sprint("line ", maxLines+8), fmt.Sprint("line ", maxLines+9)}; !slices.Equal(rest.Lines, want) {
		t.Errorf("got %q, want %q", rest.Lines, want)
	}
	if beyond, _ := p.since(all.Next + 5); len(beyond.Lines) != 0 {
		t.Errorf("got %q after the last line, want none", beyond.Lines)
	}
}

func TestFollowWaitsForLines(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		after int
		act   func(*progress)
		took  time.Duration
		lines []string
	}{
		{"lines that exist are returned immediately", 0, func(*progress) {}, 0, []string{hubapi.Working("VM 1")}},
		{"a line that comes later ends the wait", 1, func(p *progress) { p.say("later") }, time.Second, []string{"later"}},
		{"the wait is bounded", 1, func(*progress) {}, hubapi.FollowWait, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, begun := newProgress(), time.Now()
				go func() {
					time.Sleep(time.Second)
					test.act(p)
				}()
				got := p.follow(t.Context(), test.after)
				if took := time.Since(begun); !slices.Equal(got.Lines, test.lines) || took != test.took {
					t.Errorf("got %q after %v, want %q after %v", got.Lines, took, test.lines, test.took)
				}
				time.Sleep(2 * time.Second) // the goroutine ends
			})
		})
	}
	t.Run("a caller that leaves ends the wait", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := newProgress().follow(ctx, 1); len(got.Lines) != 0 {
			t.Errorf("got %q", got.Lines)
		}
	})
}
