package hubapi

import (
	"context"
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
)

// Toolbox offers a [Door] as tools: the five of the TARS hub protocol, and answer_task.
type Toolbox struct{ door Door }

// NewToolbox returns the tools of door.
func NewToolbox(door Door) Toolbox { return Toolbox{door} }

// Caller is who calls a tool.
type Caller struct {
	Tenant string
	Key    string // idempotency key of the call; "" = a new one for each call
}

// Reply is what a tool gives: Text for a model, and the same as a value that becomes JSON.
type Reply struct {
	Text string
	Data any // an object: Task, Cancelled or AgentList
}

// Call runs the tool of that name. Arguments that do not fit its schema are apierr.InvalidMessageFormat.
func (b Toolbox) Call(ctx context.Context, who Caller, name string, args json.RawMessage) (Reply, error) {
	if name == VerbAssignTask {
		return b.assign(ctx, who, args)
	}
	if name == VerbAnswerTask {
		return b.answer(ctx, who, args)
	}
	if name == VerbListAgents {
		return b.list(ctx, who, args)
	}
	ask, ok := map[string]func(context.Context, TaskRef) (Reply, error){
		VerbCheckStatus: b.check, VerbGetResult: b.result, VerbCancelTask: b.cancel,
	}[name]
	if !ok {
		return Reply{}, apierr.New(apierr.ToolError, "there is no tool %.64q; there are %v", name, Names())
	}
	r, err := decodeRef(who, args)
	if err != nil {
		return Reply{}, err
	}
	return ask(ctx, r)
}

func (b Toolbox) assign(ctx context.Context, who Caller, args json.RawMessage) (Reply, error) {
	var in struct {
		AgentID       string  `json:"agent_id"`
		Task          string  `json:"task"`
		Cwd           string  `json:"cwd"`
		MaxTurns      int     `json:"max_turns"`
		MaxBudgetUSD  float64 `json:"max_budget_usd"`
		ResumeSession string  `json:"resume_session"`

		SystemPrompt   string                     `json:"system_prompt"`
		PermissionMode remoteagent.PermissionMode `json:"permission_mode"`
		AllowedTools   []string                   `json:"allowed_tools"`
		Model          string                     `json:"model"`
		Approvals      remoteagent.Approvals      `json:"approvals"`
	}
	if err := decode(VerbAssignTask, args, &in); err != nil {
		return Reply{}, err
	}
	t, err := b.door.AssignTask(ctx, Assignment{
		Tenant: who.Tenant, AgentID: in.AgentID, Task: in.Task, Cwd: in.Cwd, MaxTurns: in.MaxTurns,
		MaxBudgetUSD: in.MaxBudgetUSD, ResumeSession: in.ResumeSession, Key: who.Key, SystemPrompt: in.SystemPrompt,
		PermissionMode: in.PermissionMode, AllowedTools: in.AllowedTools, Model: in.Model,
		Approvals: in.Approvals,
	})
	if err != nil {
		return Reply{}, err
	}
	return Reply{assignedText(t), t}, nil
}

func (b Toolbox) check(ctx context.Context, r TaskRef) (Reply, error) {
	t, err := b.door.CheckStatus(ctx, r)
	if err != nil {
		return Reply{}, err
	}
	return Reply{statusText(t), t}, nil
}

func (b Toolbox) result(ctx context.Context, r TaskRef) (Reply, error) {
	t, err := b.door.GetResult(ctx, r)
	if err != nil {
		return Reply{}, err
	}
	return Reply{ResultText(t), t}, nil
}

func (b Toolbox) cancel(ctx context.Context, r TaskRef) (Reply, error) {
	c, err := b.door.CancelTask(ctx, r)
	if err != nil {
		return Reply{}, err
	}
	return Reply{c.Message + " (" + c.TaskID + " is " + string(c.Status) + ")", c}, nil
}

func (b Toolbox) answer(ctx context.Context, who Caller, args json.RawMessage) (Reply, error) {
	var in struct {
		AgentID  string             `json:"agent_id"`
		TaskID   string             `json:"task_id"`
		ActionID string             `json:"action_id"`
		Status   event.ActionStatus `json:"status"`
		Result   json.RawMessage    `json:"result"`
		Reason   string             `json:"reason"`
	}
	if err := decode(VerbAnswerTask, args, &in); err != nil {
		return Reply{}, err
	}
	t, err := b.door.AnswerTask(ctx, Answer{
		TaskRef: TaskRef{Tenant: who.Tenant, AgentID: in.AgentID, TaskID: in.TaskID},
		Answer: remoteagent.Answer{ActionResults: []event.ActionResult{
			{ActionID: in.ActionID, Status: in.Status, Result: in.Result, Error: in.Reason},
		}},
	})
	if err != nil {
		return Reply{}, err
	}
	return Reply{statusText(t), t}, nil
}

func (b Toolbox) list(ctx context.Context, who Caller, args json.RawMessage) (Reply, error) {
	if err := decode(VerbListAgents, args, &struct{}{}); err != nil {
		return Reply{}, err
	}
	l, err := b.door.ListAgents(ctx, AgentsQuery{Tenant: who.Tenant, Live: true})
	if err != nil {
		return Reply{}, err
	}
	return Reply{listText(l), l}, nil
}

func decodeRef(who Caller, args json.RawMessage) (TaskRef, error) {
	var in struct {
		AgentID string `json:"agent_id"`
		TaskID  string `json:"task_id"`
	}
	if err := decode("this tool", args, &in); err != nil {
		return TaskRef{}, err
	}
	if in.AgentID == "" || in.TaskID == "" {
		return TaskRef{}, apierr.New(apierr.InvalidMessageFormat,
			"agent_id and task_id are required: list_agents returns the agents, assign_task the task's id")
	}
	return TaskRef{Tenant: who.Tenant, AgentID: in.AgentID, TaskID: in.TaskID}, nil
}

func decode(name string, args json.RawMessage, into any) error {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if err := jsonv2.Unmarshal(args, into, jsonv2.RejectUnknownMembers(true)); err != nil {
		return apierr.Wrap(err, apierr.InvalidMessageFormat, "the arguments of %s do not fit its schema: %s", name, remoteagent.ExplainJSON(err))
	}
	return nil
}

// Names lists the tools.
func Names() []string {
	return []string{VerbAssignTask, VerbCheckStatus, VerbGetResult, VerbCancelTask, VerbAnswerTask, VerbListAgents}
}

// Specs describes the tools, in the order of [Names] (TARS hub protocol, Tool Definitions). A model may give the answer of a user
// to a task only after an approval.
func Specs() []tool.Spec {
	answer := tool.Spec{
		Name: VerbAnswerTask, Schema: json.RawMessage(answerSchema), Effect: tool.EffectIdempotent, Approval: tool.ApprovalAlways,
		Description: "Gives a task the user's decision about one of its actions, after which the task continues.",
	}
	spec := func(name, description, schema string, effect tool.Effect) tool.Spec {
		return tool.Spec{
			Name: name, Description: description, Schema: json.RawMessage(schema), Effect: effect, Approval: tool.ApprovalNever,
		}
	}
	return []tool.Spec{
		spec(VerbAssignTask, "Sends a task to a remote agent, which works on it by itself. Gives its taskId and sessionId.",
			assignSchema, tool.EffectIdempotent),
		spec(VerbCheckStatus, "Gets the current status of a task.", refSchema, tool.EffectNone),
		spec(VerbGetResult, "Gets the final result of a completed task. While the task runs it says so instead.",
			refSchema, tool.EffectNone),
		spec(VerbCancelTask, "Cancels a running task. Changes that it has made so far remain.", refSchema, tool.EffectIdempotent),
		answer,
		spec(VerbListAgents, "Returns all registered agents and their current status.", noSchema, tool.EffectNone),
	}
}

const (
	noSchema  = `{"type":"object","properties":{},"additionalProperties":false}`
	refSchema = `{"type":"object","properties":{` +
		`"agent_id":{"type":"string","description":"Agent ID"},` +
		`"task_id":{"type":"string","description":"Task ID from assign_task"}},` +
		`"required":["agent_id","task_id"],"additionalProperties":false}`
	answerSchema = `{"type":"object","properties":{` +
		`"agent_id":{"type":"string","description":"Agent ID"},` +
		`"task_id":{"type":"string","description":"Task ID from assign_task"},` +
		`"action_id":{"type":"string","description":"ID of the action, from check_status"},` +
		`"status":{"type":"string","enum":["success","denied","error"],` +
		`"description":"success = the user allows the call or answers the question"},` +
		`"result":{"description":"The user's answer to a question"},` +
		`"reason":{"type":"string","description":"Why the user denies the call"}},` +
		`"required":["agent_id","task_id","action_id","status"],"additionalProperties":false}`
	assignSchema = `{"type":"object","properties":{` +
		`"agent_id":{"type":"string","description":"ID of the registered agent (e.g., \"home-pc-01\")"},` +
		`"task":{"type":"string","description":"Description of what the agent should do"},` +
		`"cwd":{"type":"string","description":"Working directory on the remote machine"},` +
		`"max_turns":{"type":"integer","minimum":1,"default":50,"description":"Turn limit (default: 50)"},` +
		`"max_budget_usd":{"type":"number","exclusiveMinimum":0,"default":5.00,"description":"Cost limit (default: 5.00)"},` +
		`"resume_session":{"type":"string","description":"Session ID to resume"},` +
		`"permission_mode":{"type":"string","enum":["default","acceptEdits","bypassPermissions"],` +
		`"description":"What the agent may do without an approval: default = change nothing, acceptEdits = edit files, ` +
		`bypassPermissions = everything; without it, the agent's own. The agent's machine may set a maximum."},` +
		`"allowed_tools":{"type":"array","items":{"type":"string"},"description":"Names of the tools to use, such as Read, Edit, Bash; ` +
		`without it, the agent's own"},` +
		`"system_prompt":{"type":"string","description":"Instructions for the agent; without it, the agent's own"},` +
		`"model":{"type":"string","description":"Model to use, if the agent allows it; without it, the agent's own"},` +
		`"approvals":{"type":"string","enum":["deny","ask"],"default":"deny","description":"ask = the task waits when it needs an ` +
		`approval or an answer of the user, which answer_task gives; deny = it continues without"}},` +
		`"required":["agent_id","task"],"additionalProperties":false}`
)
