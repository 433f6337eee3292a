package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
)

// TaskPushes are the receivers of push notifications about the tasks of one thread.
type TaskPushes struct {
	Tenant   string     `json:"tenant"`
	ThreadID string     `json:"threadId"`
	Configs  []TaskPush `json:"configs"`
}

// TaskPush is a receiver of push notifications about one task.
type TaskPush struct {
	ID          string `json:"id"` // chosen by the client, unique in the task
	TaskID      string `json:"taskId"`
	AgentID     string `json:"agentId"`
	Owner       string `json:"owner"`
	URL         string `json:"url"`
	Token       string `json:"token,omitempty"` // sealed
	Scheme      string `json:"scheme,omitempty"`
	Credentials string `json:"credentials,omitempty"` // sealed
}

// PushBucket stores the receivers of push notifications by thread. They expire with the events of the thread.
type PushBucket struct{ Bucket[TaskPushes] }

// NewPushBucket returns the bucket of a connection.
func NewPushBucket(conn *broker.Conn) *PushBucket {
	return &PushBucket{Bucket[TaskPushes]{conn: conn, kind: "PUSHES", live: "push", what: "push notifications of thread"}}
}

// pushKey names the record of a thread. Ids of threads are unique in their tenant alone.
func pushKey(tenant, threadID string) string { return id.Derive("psh", tenant, threadID) }

// TaskPushes returns the record of a thread with its revision, from the leader. A thread without one has an empty record.
func (b *PushBucket) TaskPushes(ctx context.Context, tenant, threadID string) (TaskPushes, uint64, error) {
	none := TaskPushes{Tenant: tenant, ThreadID: threadID}
	m, err := b.conn.Newest(ctx, "KV_"+b.Name(), "$KV."+b.Name()+"."+pushKey(tenant, threadID))
	if errors.Is(err, broker.ErrNotFound) {
		return none, 0, nil
	}
	if err != nil {
		return none, 0, fmt.Errorf("read %s %s: %w", b.what, threadID, err)
	}
	if len(m.Data) == 0 { // the marker of a deletion
		return none, m.Sequence, nil
	}
	var p TaskPushes
	return p, m.Sequence, m.Decode(&p)
}

// PutTaskPushes replaces the record of a thread, if it still has the revision. ErrConflict otherwise.
func (b *PushBucket) PutTaskPushes(ctx context.Context, p TaskPushes, revision uint64) error {
	key := pushKey(p.Tenant, p.ThreadID)
	bucket, err := b.bucket(key)
	if err != nil {
		return err
	}
	body, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", b.what, p.ThreadID, err)
	}
	_, err = bucket.Update(ctx, key, body, revision)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.ErrorCode == broker.CodeWrongLast {
		return broker.ErrConflict
	}
	if err != nil {
		return fmt.Errorf("write %s %s: %w", b.what, p.ThreadID, err)
	}
	return nil
}

// DeleteTaskPushes deletes the record of a thread, if it has one.
func (b *PushBucket) DeleteTaskPushes(ctx context.Context, tenant, threadID string) error {
	stored, _, err := b.TaskPushes(ctx, tenant, threadID)
	if err != nil || len(stored.Configs) == 0 {
		return err
	}
	key := pushKey(tenant, threadID)
	bucket, err := b.bucket(key)
	if err != nil {
		return err
	}
	if err := bucket.Delete(ctx, key); err != nil {
		return fmt.Errorf("delete %s %s: %w", b.what, threadID, err)
	}
	return nil
}

// HasTaskPushes reports whether any thread has a record, or had one until recently.
func (b *PushBucket) HasTaskPushes(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, broker.AnswerWait)
	defer cancel()
	info, err := b.conn.StreamInfo(ctx, "KV_"+b.Name())
	if err != nil {
		return false, err
	}
	return info.State.Msgs > 0, nil
}
