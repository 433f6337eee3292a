package chat

import (
	"encoding/json"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestApprovalReportsPossibleEarlierRun(t *testing.T) {
	t.Parallel()
	for want, again := range map[string]bool{
		`Allow pay {"to":"ann"}?`: false,
		`pay {"to":"ann"} was interrupted, and may have run. Run it again?`: true,
	} {
		call := event.ContinuationAction{Tool: "pay", Args: json.RawMessage(`{"to":"ann"}`), Again: again}
		if got := approvalOf(call); got != want {
			t.Errorf("again %t: got %q, want %q", again, got, want)
		}
	}
}

func TestApprovalNamesCalledAgent(t *testing.T) {
	t.Parallel()
	call := event.ContinuationAction{Tool: "pay", Args: json.RawMessage(`{}`), Agent: &event.AskingAgent{AgentID: "helper"}}
	for want, again := range map[string]bool{
		"helper asks: Allow pay {}?": false, "helper asks: pay {} was interrupted, and may have run. Run it again?": true,
	} {
		call.Again = again
		if got := approvalOf(call); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
