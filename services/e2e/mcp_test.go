package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
)

// called calls site__add of the MCP server, until an executor has published the tools of that server.
func called(t *testing.T, line string) (result event.ToolResult) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		tr := post(t, "connected", prompt(line))
		result = tr.results()["site__add"]
		if result.Status != event.ToolSuccess {
			return fmt.Errorf("got %+v in %s", result, tr.shape())
		}
		return nil
	})
	return result
}

func TestAgentsUseTheToolsOfAnMCPServer(t *testing.T) {
	t.Parallel()
	if result := called(t, `/tool site__add {"a":40,"b":2}`); result.Summary != "2 bytes" {
		t.Errorf("got %q, want the size of 42", result.Summary)
	}
	tr := post(t, "connected", prompt(`/tool site__add {"a":"forty","b":2}`))
	if got := tr.results()["site__add"]; got.Status != event.ToolFailed {
		t.Errorf("got %+v, want arguments that do not fit to be refused", got)
	}
}

func TestMCPToolWithoutReadOnlyNeedsApproval(t *testing.T) {
	t.Parallel()
	called(t, `/tool site__add {"a":1,"b":1}`) // the list is there
	tr, actions := paused(t, "connected", `/tool site__picture {}`)
	if len(actions) != 1 || actions[0].Kind != event.ContinueApproval {
		t.Fatalf("got %+v, want one approval", actions)
	}
	next := post(t, "connected", resolve(tr.ThreadID, event.ActionResult{ActionID: actions[0].ActionID, Status: event.ActionSuccess}))
	got := next.results()["site__picture"]
	if got.Status != event.ToolSuccess || len(got.Media) != 2 {
		t.Errorf("got %+v, want a picture and a file", got)
	}
}

func TestAToolThatAnMCPServerAddsIsThereForTheNextRequest(t *testing.T) {
	t.Parallel()
	called(t, `/tool site__add {"a":1,"b":1}`)
	tr, actions := paused(t, "connected", `/tool site__grow {}`)
	post(t, "connected", resolve(tr.ThreadID, event.ActionResult{ActionID: actions[0].ActionID, Status: event.ActionSuccess}))
	eventually(t, 30*time.Second, func() error {
		tr := post(t, "connected", prompt(`/tool site__more {}`))
		if len(find[event.Continuation](tr)) != 1 {
			return fmt.Errorf("got %s, want the new tool to ask", tr.shape())
		}
		return nil
	})
}
