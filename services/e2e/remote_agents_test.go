package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// Agents of the configuration that are remote agents: far and editor are vm-1, which lead and thrifty call (hubConfig).
func TestRemoteAgentsOfTheConfiguration(t *testing.T) {
	t.Parallel()
	o, root := newOffice(t, 0), t.TempDir()
	o.addAgent(t, "AGENT_ROOT="+root)
	written := func(t *testing.T, file string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
	t.Run("one is requested by name, with its permission mode", func(t *testing.T) {
		tr := o.run(t, "editor", writes("by-name", "")).end(t, time.Minute)
		if checkStream(t, tr); answerText(tr.done(t)) != "before|after" || tr.results()["write_file"].Status != event.ToolSuccess {
			t.Errorf("got %s", tr.shape())
		}
		written(t, "by-name")
	})
	t.Run("one is called by another agent, and its approval reaches the caller", func(t *testing.T) {
		first, action := o.asks(t, "lead", ask("far", writes("by-call", "/usage 700 70\n"))+"\n/say end")
		if p := action.Payload; p.Agent == nil || p.Agent.AgentID != "far" || p.Tool != "write_file" {
			t.Fatalf("got %+v, want an approval of write_file that far asks for", action)
		}
		tr := o.next(t, "lead", resolve(first.ThreadID, success(action.ActionID, ""))).end(t, time.Minute)
		checkStream(t, tr)
		done := tr.done(t)
		if answerText(done) != "end" || tr.results()["agent__far"].Status != event.ToolSuccess || done.Usage.InputTokens < 700 {
			t.Errorf("got %+v with %+v, in %s", done, tr.results(), tr.shape())
		}
		written(t, "by-call")
	})
	t.Run("one is stopped with its caller", func(t *testing.T) {
		w := o.run(t, "lead", ask("far", `/tool echo {"delay":"5m"}`))
		busy(t, o.agents[0], remoteagent.Busy)
		o.abort(t, w.seen().RequestID)
		if tr := w.end(t, time.Minute); tr.Events[len(tr.Events)-1].Body.Name() != event.NameAborted {
			t.Errorf("got %s, want it aborted", tr.shape())
		}
		busy(t, o.agents[0], remoteagent.Idle)
	})
	t.Run("one is stopped by the budget of its caller", func(t *testing.T) {
		tr := o.run(t, "thrifty", ask("far", "/say some", "/usage 2000 1", `/tool echo {"delay":"100ms"}`, `/tool echo {"delay":"5m"}`)).end(t, time.Minute)
		if done := tr.done(t); done.FinishReason != event.FinishBudget || done.Usage.InputTokens < 2000 {
			t.Errorf("got %+v in %s", done, tr.shape())
		}
		busy(t, o.agents[0], remoteagent.Idle)
	})
}
