package bus

import (
	"context"
	"errors"
	"reflect"

	"github.com/agentbus/agentbus/pkg/tool"
)

// Toolset is what an executor has found behind a source of tools whose list only that source knows, such as an MCP
// server. Runners show it to models.
type Toolset struct {
	Source string      `json:"source"`
	Tools  []tool.Spec `json:"tools"`
}

func toolsetShelf() shelf { return shelf{kind: "TOOLSETS", live: "toolset", what: "toolset"} }

// PutToolset publishes what the tools of a source are now. What says nothing new is not written: every executor finds
// the same.
func (b *Bus) PutToolset(ctx context.Context, t Toolset) error {
	known, err := pick[Toolset](ctx, b, toolsetShelf(), t.Source)
	if err == nil && reflect.DeepEqual(known, t) {
		return nil
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return place(ctx, b, toolsetShelf(), t.Source, t)
}

// WatchToolsets calls changed with what is known of every source, then ready, then changed for every change, until ctx
// is done. All calls come from this goroutine.
func (b *Bus) WatchToolsets(ctx context.Context, changed func(Toolset), ready func()) error {
	return watchShelf(ctx, b, toolsetShelf(), changed, ready)
}
