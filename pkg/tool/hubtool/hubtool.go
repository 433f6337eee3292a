// Package hubtool has the tools with which an agent uses remote agents (TARS hub protocol, Orchestrator – MCP
// Tools): assign_task assigns a task, get_result waits for it and shows its progress.
package hubtool

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
)

// Hub manages the remote agents. It is implemented by hubapi.Client.
type Hub interface {
	hubapi.Door
	Follow(ctx context.Context, q hubapi.FollowQuery) (hubapi.Progress, error)
}

const (
	callTime = time.Minute      // an agent has thirty seconds to take a task, and ten to say whether it did
	waitTime = 10 * time.Minute // for a result
	margin   = 12 * time.Second // before its time is over, a wait says that the task still runs
)

// Specs describes the tools.
func Specs() []tool.Spec {
	specs := hubapi.Specs()
	for i := range specs {
		specs[i].Timeout = callTime
		if specs[i].Name == hubapi.VerbGetResult {
			specs[i].Timeout = waitTime
			specs[i].Description = "Waits for the final result of a task. Of one that takes long it says that it still runs: then call it again."
		}
	}
	return specs
}

// Tools returns the tools of a hub.
func Tools(h Hub) []tool.Tool {
	var tools []tool.Tool
	for _, spec := range Specs() {
		tools = append(tools, one{spec: spec, hub: h})
	}
	return tools
}

// one implements tool.Tool.
type one struct {
	spec tool.Spec
	hub  Hub
}

// Spec implements tool.Tool.
func (o one) Spec() tool.Spec { return o.spec }

// Call implements tool.Tool. The task of a call that is made again is the task of the first.
func (o one) Call(ctx context.Context, call tool.Call) (tool.Result, error) {
	who := hubapi.Caller{Tenant: call.For.Tenant, Key: call.ID}
	if o.spec.Name == hubapi.VerbGetResult {
		o.await(ctx, who, call)
	}
	reply, err := hubapi.NewToolbox(o.hub).Call(ctx, who, o.spec.Name, call.Args)
	if err != nil {
		return tool.Result{}, err
	}
	summary, _, _ := strings.Cut(reply.Text, "\n")
	return tool.Result{Content: reply.Text, Summary: summary}, nil
}

// await shows the progress of the task until it has ended or the call's time is nearly over. It ignores errors: the
// call itself will report them.
func (o one) await(ctx context.Context, who hubapi.Caller, call tool.Call) {
	q, ok := follows(who, call.Args)
	if deadline, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-margin))
		defer cancel()
	}
	for ok && ctx.Err() == nil {
		p, err := o.hub.Follow(ctx, q)
		if err != nil {
			return
		}
		for _, line := range p.Lines {
			call.Progress(line + "\n")
		}
		if p.Task.Status.Finished() && !p.Task.CompletedAt.IsZero() || p.Task.Status == remoteagent.NeedsAction {
			return
		}
		q.After = p.Next
	}
}

func follows(who hubapi.Caller, args json.RawMessage) (hubapi.FollowQuery, bool) {
	var in struct {
		AgentID string `json:"agent_id"`
		TaskID  string `json:"task_id"`
	}
	err := jsonv2.Unmarshal(args, &in)
	return hubapi.FollowQuery{TaskRef: hubapi.TaskRef{Tenant: who.Tenant, AgentID: in.AgentID, TaskID: in.TaskID}}, err == nil
}
