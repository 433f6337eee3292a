package gateway_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway"
)

func TestToolOutputNeedsItsScope(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys, func(d *gateway.Deps) {
		demo := d.Config.Agents["demo"]
		demo.ToolOutput = config.ToolOutputAllow
		d.Config.Agents["demo"] = demo
	})
	most, _ := b.key("default", "alice", auth.ScopeRead, auth.ScopeRun)
	all, _ := b.key("default", "alice", auth.ScopeRead, auth.ScopeRun, auth.ScopeToolOutput)
	made := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+most)
	requestID, threadID := made.header.Get("X-Request-Id"), made.header.Get("X-Thread-Id")
	b.run(requestID, metadata(),
		event.ToolResult{Block: event.Block{BlockID: "b0", Stage: event.StageDelta}, ToolCallID: "c1", Delta: "printed"},
		event.ToolOutput{ToolCallID: "c1", Status: event.ToolSuccess, Content: "read"},
		event.Done{MessageID: "m", ThreadID: threadID, FinishReason: event.FinishStop},
	)
	for _, path := range []string{
		"/v1/requests/" + requestID + "/stream", "/v1/threads/" + threadID + "/events", "/v1/threads/" + threadID + "/stream",
		"/ai-sdk/demo/" + threadID + "/stream",
	} {
		a := b.get(path+"?include=tool_output", "Authorization", "Bearer "+most)
		if a.status != 401 || !strings.Contains(a.body, "tool_output") {
			t.Errorf("%s without the scope: got %d %s, want 401 that names the scope", path, a.status, a.body)
		}
	}
	a := b.get("/v1/requests/"+requestID+"/stream?include=tool_output", "Authorization", "Bearer "+all)
	if a.status != 200 || !strings.Contains(a.body, `"delta":"printed"`) || !strings.Contains(a.body, `"content":"read"`) {
		t.Errorf("with the scope: got %d %s, want the output", a.status, a.body)
	}
	a = b.get("/ai-sdk/demo/"+threadID+"/stream?replay=ended&include=tool_output", "Authorization", "Bearer "+all)
	if a.status != 200 || !strings.Contains(a.body, `"delta":"printed"`) {
		t.Errorf("the AI SDK with the scope: got %d %s, want what the tool prints", a.status, a.body)
	}
	a = b.get("/ai-sdk/demo/"+threadID+"/stream?replay=ended", "Authorization", "Bearer "+all)
	if a.status != 200 || strings.Contains(a.body, "printed") {
		t.Errorf("the AI SDK without include: got %d %s, want no output", a.status, a.body)
	}
}
