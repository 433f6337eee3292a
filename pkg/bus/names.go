package bus

import (
	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/bus/kv"
	"github.com/agentbus/agentbus/pkg/bus/objects"
	"github.com/agentbus/agentbus/pkg/bus/projection"
	"github.com/agentbus/agentbus/pkg/bus/prompts"
	"github.com/agentbus/agentbus/pkg/bus/records"
	"github.com/agentbus/agentbus/pkg/bus/rpc"
	"github.com/agentbus/agentbus/pkg/bus/workqueue"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

// The errors of the packages below this one.
var (
	ErrNotFound  = broker.ErrNotFound
	ErrConflict  = broker.ErrConflict
	ErrFenced    = broker.ErrFenced
	ErrEnded     = broker.ErrEnded
	ErrIdle      = broker.ErrIdle
	ErrThrottled = broker.ErrThrottled
	ErrExpired   = broker.ErrExpired
	ErrDamaged   = broker.ErrDamaged
	ErrTooLarge  = broker.ErrTooLarge
	ErrLeave     = broker.ErrLeave
	ErrHandOver  = broker.ErrHandOver
)

// The types of the packages below this one.
type (
	LogID          = record.LogID
	Instruments    = broker.Instruments
	Credentials    = broker.Credentials
	ThreadRecord   = record.ThreadRecord
	AcceptedRecord = records.AcceptedRecord
	SessionRecord  = records.SessionRecord
	SteerRecord    = records.SteerRecord
	CommandList    = records.CommandList
	ThreadFollower = records.ThreadFollower
	Writer         = eventlog.Writer
	Follower       = eventlog.Follower
	ResumeHint     = eventlog.ResumeHint
	Entry          = projection.Entry
	Apply          = projection.Apply
	Projected      = projection.Projected
	Handler        = rpc.Handler
	Prompt         = prompts.Prompt
	PromptOptions  = prompts.PromptOptions
	KeyRecord      = kv.KeyRecord
	AgentRecord    = kv.AgentRecord
	Toolset        = kv.Toolset
	TaskPushes     = kv.TaskPushes
	TaskPush       = kv.TaskPush
	RetryError     = broker.RetryError

	Handle[T any] = workqueue.Handle[T]
)

// CheckAccepted is records.CheckAccepted.
func CheckAccepted(a record.Accepted) error { return records.CheckAccepted(a) }

// CheckSteer is records.CheckSteer.
func CheckSteer(s record.Steer, threadID, agentID string) error {
	return records.CheckSteer(s, threadID, agentID)
}

// RefOf is objects.RefOf.
func RefOf(data []byte) event.ObjectRef { return objects.RefOf(data) }
