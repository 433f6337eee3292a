package kv

import (
	"context"
	"errors"
	"reflect"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/tool"
)

// Toolset lists the tools of a source that is asked for them, such as an MCP server. An executor writes it, and runners show
// the tools to models.
type Toolset struct {
	Source string      `json:"source"`
	Tools  []tool.Spec `json:"tools"`
}

// ToolsetBucket stores toolsets by their source.
type ToolsetBucket struct{ Bucket[Toolset] }

// NewToolsetBucket returns the bucket of a connection.
func NewToolsetBucket(conn *broker.Conn) *ToolsetBucket {
	return &ToolsetBucket{Bucket[Toolset]{conn: conn, kind: "TOOLSETS", live: "toolset", what: "toolset"}}
}

// PutToolset writes the toolset of a source, unless it is stored already: every executor finds the same tools.
func (b *ToolsetBucket) PutToolset(ctx context.Context, t Toolset) error {
	stored, err := b.get(ctx, t.Source)
	if err == nil && reflect.DeepEqual(stored, t) {
		return nil
	}
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		return err
	}
	return b.put(ctx, t.Source, t)
}

// WatchToolsets calls changed with every toolset, then ready, then changed for every change, until ctx is done. All calls
// come from this goroutine.
func (b *ToolsetBucket) WatchToolsets(ctx context.Context, changed func(Toolset), ready func()) error {
	return b.watch(ctx, changed, ready)
}
