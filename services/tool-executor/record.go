package toolexecutor

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/retry"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/output"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// maxInline is how large a result may be, as JSON, to travel in its record.
	maxInline = 256 << 10
	// writeTimeout is how long a record is tried to be written, ctx done or not.
	writeTimeout = 20 * time.Second
	firstRetry   = 100 * time.Millisecond
	// maxKept bounds the results, in bytes, that are kept for longer than that because they cannot be stored.
	maxKept = 64 << 20
	// lastTry is how long a result is tried to be stored, at least, once the grace of a process about to end is over.
	lastTry = 3 * time.Second
	// keptWait is how long an executor waits for the result of a call that another one has started: the other may have
	// been disconnected from the broker, and stores the result that it has kept as soon as it is connected.
	keptWait = 5 * time.Second
)

// putStarted records that the call is about to take effect, and reports whether it is for us to run it.
func (e *Executor) putStarted(ctx context.Context, j job) (first bool, err error) {
	started := record.ToolStarted{ToolCallID: j.ToolCallID, Executor: e.deps.Name, At: e.deps.Bus.Now().UTC()}
	err = write(ctx, func(ctx context.Context) error {
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
	result := record.ToolResult{
		ToolCallID: j.ToolCallID, Status: v.status, Content: output.Cut(v.content, j.maxOutput()),
		Summary: output.Summary(v.summary), ElapsedMS: elapsed.Milliseconds(), Media: v.media, Events: v.events, Ask: v.ask,
	}
	switch {
	case result.Summary != "":
	case result.Content == "" && len(v.media) > 0:
		result.Summary = output.Summary(media.Describe(v.media[0]))
	default:
		result.Summary = tool.Size(result.Content)
	}
	err = e.keep(ctx, result, func(ctx context.Context) error {
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

func same(a, b record.ToolResult) bool {
	if (a.Ref == nil) != (b.Ref == nil) || a.Ref != nil && *a.Ref != *b.Ref {
		return false
	}
	a.Ref, b.Ref = nil, nil
	return reflect.DeepEqual(a, b)
}

// moveOut puts content that is too large for a record, and all images and files, into the object store.
func (e *Executor) moveOut(ctx context.Context, j job, r *record.ToolResult) error {
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

// write calls do until it succeeds or writeTimeout is over, whether ctx is done or not.
func write(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	return repeat(ctx, do)
}

// keep calls do, which stores a result, until it succeeds: a result that exists must not be lost, and meanwhile its call
// stays in progress. It gives up when the process is about to end and ctx is done, when the result can never be stored,
// and after writeTimeout when too much is kept already.
func (e *Executor) keep(ctx context.Context, r record.ToolResult, do func(context.Context) error) error {
	err := write(ctx, do)
	size := resultSize(r)
	if err == nil || isPermanent(err) || ctx.Err() != nil {
		return err
	}
	defer e.kept.Add(-size)
	if e.kept.Add(size) > maxKept {
		return fmt.Errorf("%d bytes of results are kept that could not be stored either: %w", maxKept, err)
	}
	e.deps.Log.WarnContext(ctx, "a result cannot be stored and is kept until it can", telemetry.LogToolCall, r.ToolCallID, "error", err)
	keeping, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(max(e.deps.Grace/4, lastTry), cancel) })()
	return repeat(keeping, do)
}

func resultSize(r record.ToolResult) int64 {
	size := len(r.Content)
	for _, part := range r.Media {
		size += len(part.Data)
	}
	return int64(size)
}

// repeat calls do until it succeeds, cannot succeed, or ctx is done.
func repeat(ctx context.Context, do func(context.Context) error) error {
	return retry.Policy{First: firstRetry, Longest: time.Second, Final: isPermanent}.Do(ctx, do)
}

func isPermanent(err error) bool { return errors.Is(err, bus.ErrTooLarge) }

// awaitKept waits a while for the result of a call that another executor has started.
func (e *Executor) awaitKept(ctx context.Context, j job) error {
	wait, cancel := context.WithTimeout(ctx, keptWait)
	defer cancel()
	// With or without a result: the first one that is written counts.
	_, _ = e.deps.Bus.AwaitToolResult(wait, j.log, j.ToolCallID, func(record.ToolProgress) {})
	return context.Cause(ctx)
}
