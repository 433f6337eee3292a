package toolexecutor

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/pkg/tool/output"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxInline is how large a result may be, as JSON, to travel in its record.
	maxInline = 256 << 10
	// writePatience is how long a record is tried to be written, ctx done or not: a result that exists must not be lost.
	writePatience = 20 * time.Second
	firstRetry    = 100 * time.Millisecond
)

// putStarted records that the call is about to take effect, and reports whether it is for us to run it.
func (e *Executor) putStarted(ctx context.Context, j job) (first bool, err error) {
	started := command.ToolStarted{ToolCallID: j.ToolCallID, Executor: e.deps.Name, At: time.Now().UTC()}
	err = retry(ctx, func(ctx context.Context) error {
		stored, won, err := e.deps.Bus.PutToolStarted(ctx, j.log, started)
		// A try before whose answer was lost may have won: the record then has our name and our time.
		first = won || stored.Executor == started.Executor && stored.At.Equal(started.At)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("record that it starts: %w", err)
	}
	return first, nil
}

// put stores a verdict as the result of the call, and reports whether it is the one that counts.
func (e *Executor) put(ctx context.Context, j job, v verdict, elapsed time.Duration) (first bool, err error) {
	result := command.ToolResult{
		ToolCallID: j.ToolCallID, Status: v.status, Content: output.Cut(v.content, j.maxOutput()),
		Summary: output.Summary(v.summary), ElapsedMS: elapsed.Milliseconds(), Media: v.media, Events: v.events,
	}
	if result.Summary == "" {
		result.Summary = output.Summary(result.Content)
	}
	if result.Summary == "" && len(v.media) > 0 {
		result.Summary = output.Summary(media.Describe(v.media[0]))
	}
	err = retry(ctx, func(ctx context.Context) error {
		if err := e.moveOut(ctx, j, &result); err != nil {
			return err
		}
		stored, won, err := e.deps.Bus.PutToolResult(ctx, j.log, result)
		first = won || same(stored, result) // a try before whose answer was lost may have won
		return err
	})
	if err != nil {
		return false, fmt.Errorf("write the result of call %s: %w", j.ToolCallID, err)
	}
	return first, nil
}

func same(a, b command.ToolResult) bool {
	if (a.Ref == nil) != (b.Ref == nil) || a.Ref != nil && *a.Ref != *b.Ref {
		return false
	}
	a.Ref, b.Ref = nil, nil
	return reflect.DeepEqual(a, b)
}

// moveOut puts content that is too large for a record, and all images and files, into the object store.
func (e *Executor) moveOut(ctx context.Context, j job, r *command.ToolResult) error {
	for i := range r.Media {
		part := &r.Media[i]
		if len(part.Data) == 0 {
			continue
		}
		ref, err := e.deps.Bus.PutObject(ctx, j.Tenant, j.ThreadID, part.Data)
		if err != nil {
			return err
		}
		part.Data, part.Ref = nil, &ref
	}
	quoted, err := jsontext.AppendQuote(nil, r.Content) // control characters take six bytes each
	if err != nil {
		return err
	}
	if len(quoted) <= maxInline {
		return nil
	}
	ref, err := e.deps.Bus.PutObject(ctx, j.Tenant, j.ThreadID, []byte(r.Content))
	if err != nil {
		return err
	}
	r.Content, r.Ref = "", &ref
	return nil
}

func (j job) maxOutput() int64 {
	if j.spec.MaxOutput > 0 {
		return j.spec.MaxOutput
	}
	return defaultMaxOutput
}

// retry calls do until it succeeds or writePatience is over, whether ctx is done or not.
func retry(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writePatience)
	defer cancel()
	for wait := firstRetry; ; wait = min(2*wait, time.Second) {
		err := do(ctx)
		if err == nil {
			return nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}
