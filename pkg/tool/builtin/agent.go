package builtin

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/tool"
)

// askTime limits the call that creates a child request. The child request has its own limits.
const askTime = 30 * time.Second

const agentSchema = `{
	"type": "object",
	"properties": {
		"task": {"type": "string", "minLength": 1, "maxLength": 100000, "description": "The task, with all information that the agent needs."}
	},
	"required": ["task"],
	"additionalProperties": false
}`

// AgentSpec is the tool by which other agents call the agent of that name.
func AgentSpec(name string, a config.Agent) tool.Spec {
	about := strings.TrimRight(a.Description, ". ")
	if about != "" {
		about = " (" + about + ")"
	}
	return tool.Spec{
		Name: config.AgentTool(name), Schema: json.RawMessage(agentSchema),
		Description: "Gives a task to the agent " + name + about + " and returns its answer. It sees nothing of this conversation.",
		Effect:      tool.EffectIdempotent, Approval: tool.ApprovalNever, Timeout: askTime,
	}
}
