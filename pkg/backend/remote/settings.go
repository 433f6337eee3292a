package remote

import (
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	jsonv2 "github.com/go-json-experiment/json"
)

// settings are what a request sets for its task, in context.task. A request has a client who can act, so its task asks
// unless it is set otherwise.
type settings struct {
	PermissionMode remoteagent.PermissionMode `json:"permissionMode"`
	AllowedTools   []string                   `json:"allowedTools"`
	Cwd            string                     `json:"cwd"`
	Approvals      remoteagent.Approvals      `json:"approvals"`
}

// settingsOf reads the settings of a turn's request.
func settingsOf(turn backend.Turn) (settings, error) {
	s := settings{Approvals: remoteagent.ApprovalsAsk}
	var options struct {
		Context struct {
			Task json.RawMessage `json:"task"`
		} `json:"context"`
	}
	if len(turn.Options) > 0 {
		_ = jsonv2.Unmarshal(turn.Options, &options) // a context without a task, or without members, sets nothing
	}
	if len(options.Context.Task) == 0 {
		return s, nil
	}
	if err := jsonv2.Unmarshal(options.Context.Task, &s, jsonv2.RejectUnknownMembers(true)); err != nil {
		return s, apierr.Wrap(err, apierr.InvalidMessageFormat,
			"context.task, which sets permissionMode, allowedTools, approvals and cwd of a remote agent's task, is refused: %s", remoteagent.ExplainJSON(err))
	}
	return s, nil
}
