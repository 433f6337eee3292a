package remote

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	jsonv2 "github.com/go-json-experiment/json"
)

// Settings say what a task may do. A request sets them in context.task; the agent's configuration sets the others. A request has a
// client who can act, so its task asks unless it is set otherwise.
type Settings struct {
	PermissionMode remoteagent.PermissionMode `json:"permissionMode"`
	AllowedTools   []string                   `json:"allowedTools"` // nil = all that the agent has, empty = no tools
	Cwd            string                     `json:"cwd"`
	Approvals      remoteagent.Approvals      `json:"approvals"`
}

// of returns the settings of a turn's request; s has the defaults.
func (s Settings) of(turn backend.Turn) (Settings, error) {
	s.Approvals = cmp.Or(s.Approvals, remoteagent.ApprovalsAsk)
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
	s.AllowedTools = slices.Clone(s.AllowedTools) // the decoder writes into it
	if err := jsonv2.Unmarshal(options.Context.Task, &s, jsonv2.RejectUnknownMembers(true)); err != nil {
		return s, apierr.Wrap(err, apierr.InvalidMessageFormat,
			"context.task, which sets permissionMode, allowedTools, approvals and cwd of a remote agent's task, is refused: %s", remoteagent.ExplainJSON(err))
	}
	return s, nil
}
