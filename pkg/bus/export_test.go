package bus

import (
	"context"
	"runtime"
	"time"

	"github.com/agentbus/agentbus/pkg/budget"
	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
)

// StartLate sends a pointer as if the duplicate window had passed, and returns how many the queue then holds.
func (b *Bus) StartLate(ctx context.Context, a record.Accepted) (held int, err error) {
	msg, err := b.pointer(ctx, a)
	if err != nil {
		return 0, err
	}
	if err := b.conn.Send(ctx, b.conn.RequestsStream(), msg, id.New("late")); err != nil {
		return 0, err
	}
	for { // the replica that answers may not have the first pointer yet
		messages, _, err := b.conn.Page(ctx, b.conn.RequestsStream(), msg.Subject, 0, broker.FullPage())
		if err != nil || len(messages) > 0 {
			return len(messages), err
		}
		if err := broker.Pause(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}

func (b *Bus) pointer(ctx context.Context, a record.Accepted) (*nats.Msg, error) {
	subject, err := b.conn.Subject(broker.KindRequest, a.Tenant, a.AgentID, a.RequestID)
	if err != nil {
		return nil, err
	}
	return broker.NewMessage(ctx, subject, record.Start{Tenant: a.Tenant, AgentID: a.AgentID, RequestID: a.RequestID})
}

// ParkAndDie puts a pointer into the backlog and does no more, whenever it was there before.
func (b *Bus) ParkAndDie(ctx context.Context, a record.Accepted) error {
	msg, err := b.pointer(ctx, a)
	if err != nil {
		return err
	}
	msg.Subject = b.conn.BacklogSubject(msg.Subject)
	return b.conn.Send(ctx, b.conn.BacklogStream(), msg, a.Tenant+"/"+a.RequestID)
}

// TakeAndDie takes a pointer and does no more.
func (b *Bus) TakeAndDie(ctx context.Context) (s record.Start, err error) {
	queue, err := b.conn.JetStream.Consumer(ctx, b.conn.RequestsStream(), broker.RunnerConsumer)
	if err != nil {
		return s, err
	}
	msg, err := queue.Next()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(msg.Data(), &s)
}

// Queued counts the pointers of a tenant in the queue, those that runners have taken included.
func (b *Bus) Queued(ctx context.Context, tenant string) (int, error) {
	return b.conn.Count(ctx, b.conn.RequestsStream(), b.conn.TenantWildcard(broker.KindRequest, tenant))
}

// HoldTurns takes all turns of readers of storage, until release is called.
func (b *Bus) HoldTurns() (release func()) {
	var held []*budget.Turn
	for turn := b.turns.Turn("holder"); turn.Try(); turn = b.turns.Turn("holder") {
		held = append(held, turn)
	}
	return func() {
		for _, turn := range held {
			turn.Leave(0)
		}
	}
}

// UseUpPace charges a tenant for more than its followers may read at full speed, so that they wait for so long.
func (b *Bus) UseUpPace(tenant string, wait time.Duration) {
	turn := b.turns.Turn(tenant)
	if !turn.Try() {
		panic("the turns are in use")
	}
	turn.Leave(eventlog.ReplayBurst + int64(wait.Seconds()*float64(runtime.GOMAXPROCS(0)*eventlog.ReplayRate)))
}

// SetBurst lets the followers of a tenant read so many bytes, and then next to nothing.
func (b *Bus) SetBurst(bytes int) {
	b.turns = budget.NewTurns(1, budget.Pace{Rate: 1, Burst: float64(bytes)})
	b.Logs = eventlog.New(b.conn, b.replay, b.turns)
}
