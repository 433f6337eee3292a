package toolexecutor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

func TestACallThatHasItsResultDoesNotRunAgain(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := newProbe(tool.EffectNone, says("again"))
	c := newCall(t, "probe", `{}`)
	earlier := record.ToolResult{ToolCallID: c.ToolCallID, Status: event.ToolSuccess, Content: "before"}
	if _, _, err := b.PutToolResult(t.Context(), logOf(c), earlier); err != nil {
		t.Fatal(err)
	}
	stop := start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}, Slots: 1})
	send(t, b, c)
	after := newCall(t, "probe", `{}`) // the one slot takes it when the first is settled
	send(t, b, after)
	await(t, b, after)
	stop()
	if got := await(t, b, c); got.Content != "before" || p.runs.Load() != 1 {
		t.Errorf("got %q after %d runs, want the earlier result and one run, of the second call", got.Content, p.runs.Load())
	}
}

func TestAToolGetsTheContextOfItsRequest(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := newProbe(tool.EffectNone, func(_ context.Context, call tool.Call) (tool.Result, error) {
		return tool.Result{Content: string(call.Context)}, nil
	})
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
	c := newCall(t, "probe", `{}`)
	c.Context = []byte(`{"user":"ann"}`)
	send(t, b, c)
	if got := await(t, b, c); got.Content != `{"user":"ann"}` {
		t.Errorf("got %q", got.Content)
	}
}

func TestImagesAndFilesOfAToolGoToTheObjectStore(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	gif := []byte("GIF89a\x01\x00\x01\x00")
	given := []event.InputPart{
		{Type: "image", MediaType: "image/gif", Name: "a.gif", Data: gif},
		{Type: "image", MediaType: "image/png", Data: gif}, // it has none
		{Type: "file", URL: "file:///etc/passwd"},
		{Type: "image", URL: "https://example.com/b.png"},
	}
	for range tool.MaxMedia {
		given = append(given, event.InputPart{Type: "file", MediaType: "text/plain", Data: []byte("hi")})
	}
	p := newProbe(tool.EffectNone, func(context.Context, tool.Call) (tool.Result, error) { return tool.Result{Media: given}, nil })
	c := newCall(t, "probe", `{}`)
	defer start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})()
	send(t, b, c)
	result := await(t, b, c)
	if len(result.Media) != tool.MaxMedia || result.Summary != `image "a.gif" (image/gif, 10 bytes)` {
		t.Fatalf("got %d of them, and the summary %q", len(result.Media), result.Summary)
	}
	first, second := result.Media[0], result.Media[1]
	if first.Ref == nil || len(first.Data) > 0 || first.Name != "a.gif" || second.URL != "https://example.com/b.png" {
		t.Fatalf("got %+v and %+v", first, second)
	}
	data, err := b.Object(t.Context(), c.Tenant, c.ThreadID, *first.Ref)
	if err != nil || string(data) != string(gif) {
		t.Errorf("the reference leads to %q, %v", data, err)
	}
}

func TestWhatAToolEmitsTravelsInItsResult(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	large := json.RawMessage(`{"text":"` + strings.Repeat("x", event.MaxCustomBytes-100) + `"}`)
	p := newProbe(tool.EffectNone, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "42", Events: []event.Custom{
			{Type: "first", Data: json.RawMessage(`{"n":1}`)}, {Type: "done"}, {Type: "array", Data: json.RawMessage(`[]`)},
			{Type: "large", Data: large}, {Type: "larger", Data: large}, {Type: "no_room", Data: large}, {Type: "last"},
		}}, nil
	})
	c := newCall(t, "probe", `{}`)
	defer start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})()
	send(t, b, c)
	var types []string
	for _, custom := range await(t, b, c).Events {
		types = append(types, custom.Type)
	}
	if want := []string{"first", "large", "larger", "last"}; !slices.Equal(types, want) {
		t.Errorf("got %v, want %v: the others cannot be events, or have no room", types, want)
	}
}

func TestWhatAToolEmitsBeforeItFailsIsKept(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := newProbe(tool.EffectNone, func(context.Context, tool.Call) (tool.Result, error) {
		return tool.Result{Events: []event.Custom{{Type: "metric", Data: json.RawMessage(`{"n":1}`)}}}, apierr.New(apierr.ToolError, "the disk is full")
	})
	c := newCall(t, "probe", `{}`)
	defer start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})()
	send(t, b, c)
	got := await(t, b, c)
	if got.Status != event.ToolFailed || got.Content != "the disk is full" || len(got.Events) != 1 || got.Events[0].Type != "metric" {
		t.Errorf("got %+v", got)
	}
}

func TestALateSecondResultIsDropped(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	c := newCall(t, "probe", `{}`)
	first := record.ToolResult{ToolCallID: c.ToolCallID, Status: event.ToolUnknown, Content: "first"}
	p := newProbe(tool.EffectNone, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
		_, _, err := b.PutToolResult(ctx, logOf(c), first)
		return tool.Result{Content: "second"}, err
	})
	stop := start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
	send(t, b, c)
	await(t, b, c)
	stop() // waits until the second has been offered
	if got := await(t, b, c); got.Content != "first" {
		t.Errorf("got %q, want the first result", got.Content)
	}
}

// TestAnEarlierDelivery has a call that another executor was given before and did not finish: all that is left of that
// is what it has recorded.
func TestAnEarlierDelivery(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		effect  tool.Effect
		started bool // the earlier executor got as far as that
		status  event.ToolStatus
		runs    int32
	}{
		{"of a tool without effect is run again", tool.EffectNone, true, event.ToolSuccess, 1},
		{"of an idempotent tool is run again", tool.EffectIdempotent, true, event.ToolSuccess, 1},
		{"of an unsafe tool that had started is not", tool.EffectUnsafe, true, event.ToolUnknown, 0},
		{"of an unsafe tool that had not started is run", tool.EffectUnsafe, false, event.ToolSuccess, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			c := newCall(t, "probe", `{}`)
			send(t, b, c)
			dies(t, b, c, test.started)
			p := newProbe(test.effect, says("ran"))
			stop := start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
			result := await(t, b, c)
			stop()
			if result.Status != test.status || p.runs.Load() != test.runs {
				t.Errorf("got %s after %d runs, want %s after %d", result.Status, p.runs.Load(), test.status, test.runs)
			}
		})
	}
}

// dies takes the call from the queue as an executor would that breaks down.
func dies(t *testing.T, b *bus.Bus, c record.ToolCall, started bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	err := b.ConsumeToolCalls(ctx, 1, func(ctx context.Context, got record.ToolCall) error {
		defer cancel()
		if got.ToolCallID != c.ToolCallID {
			t.Errorf("got call %s, want %s", got.ToolCallID, c.ToolCallID)
		}
		if started {
			s := record.ToolStarted{ToolCallID: c.ToolCallID, Executor: "dead", At: time.Now()}
			if _, _, err := b.PutToolStarted(ctx, logOf(c), s); err != nil {
				t.Error(err)
			}
		}
		return errors.New("dead")
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnUnsafeCallThatMayHaveRunIsNeverCalledRefused(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	p := newProbe(tool.EffectUnsafe, says("ran"))
	c := newCall(t, "probe", `{}`)
	c.Deadline = time.Now().Add(-time.Second) // passed since it had started
	s := record.ToolStarted{ToolCallID: c.ToolCallID, Executor: "dead", At: time.Now()}
	if _, _, err := b.PutToolStarted(t.Context(), logOf(c), s); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Abort(t.Context(), c.Tenant, record.Abort{RequestID: c.RequestID, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
	send(t, b, c)
	if result := await(t, b, c); result.Status != event.ToolUnknown || p.runs.Load() != 0 {
		t.Errorf("got %s after %d runs, want unknown after none", result.Status, p.runs.Load())
	}
}

func TestAnUnsafeCallRecordsThatItStartsBeforeItRuns(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	c := newCall(t, "probe", `{}`)
	p := newProbe(tool.EffectUnsafe, func(ctx context.Context, call tool.Call) (tool.Result, error) {
		s, err := b.ToolStarted(ctx, logOf(c), call.ID)
		return tool.Result{Content: "started by " + s.Executor}, err
	})
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}, Name: "executor-7"})
	send(t, b, c)
	if result := await(t, b, c); result.Content != "started by executor-7" {
		t.Errorf("got %s %q, want the record of executor-7", result.Status, result.Content)
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		effect  tool.Effect
		deaf    bool // the tool ignores its context
		before  bool // the abort comes before the call
		content string
		runs    int32
	}{
		{"before the call starts keeps it from running", tool.EffectUnsafe, false, true, "did not run", 0},
		{"stops a running call", tool.EffectNone, false, false, "was stopped", 1},
		{"stops a running call that does not listen", tool.EffectNone, true, false, "was stopped", 1},
		{"says of an unsafe call that it may have happened", tool.EffectUnsafe, false, false, "may or may not", 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			c := newCall(t, "probe", `{}`)
			runs := make(chan struct{})
			end := make(chan struct{})
			t.Cleanup(func() { close(end) })
			p := newProbe(test.effect, func(ctx context.Context, call tool.Call) (tool.Result, error) {
				close(runs)
				if test.deaf {
					<-end
				}
				return waits(ctx, call)
			})
			start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
			abort := func() {
				if _, err := b.Abort(t.Context(), c.Tenant, record.Abort{RequestID: c.RequestID, By: "ann"}); err != nil {
					t.Error(err)
				}
			}
			if test.before {
				abort()
				send(t, b, c)
			} else {
				send(t, b, c)
				<-runs
				abort()
			}
			begun := time.Now()
			result := await(t, b, c)
			if result.Status != event.ToolAborted || !strings.Contains(result.Content, test.content) || p.runs.Load() != test.runs {
				t.Errorf("got %s %q after %d runs, want aborted, %q, %d", result.Status, result.Content, p.runs.Load(), test.content, test.runs)
			}
			if took := time.Since(begun); took > 4*time.Second { // 1 s to receive it, 1 s of grace, and a busy machine
				t.Errorf("the result came %v after the abort", took)
			}
		})
	}
}

func TestLargeContentGoesToTheObjectStore(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, content string
		max           int64
		ref           bool
		size          int
	}{
		{"what fits stays in the record", strings.Repeat("x", 200<<10), 0, false, 200 << 10},
		{"what is large does not", strings.Repeat("x", 300<<10), 0, true, 300 << 10},
		{"what is large as JSON does not", strings.Repeat("\x00", 100<<10), 0, true, 100 << 10},
		{"what is over the tool's limit is cut", strings.Repeat("x", 300<<10), 10, false, 10 + len("\n[cut: these are the first 10 of 307200 bytes]")},
		{"what is over every limit is cut", strings.Repeat("x", 2<<20), 0, true, 1<<20 + len("\n[cut: these are the first 1048576 of 2097152 bytes]")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			p := newProbe(tool.EffectNone, says(test.content))
			p.spec.MaxOutput = test.max
			start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
			c := newCall(t, "probe", `{}`)
			send(t, b, c)
			result := await(t, b, c)
			if (result.Ref != nil) != test.ref {
				t.Fatalf("got %d bytes and reference %v, want a reference: %t", len(result.Content), result.Ref, test.ref)
			}
			content := result.Content
			if test.ref {
				data, err := b.Object(t.Context(), c.Tenant, c.ThreadID, *result.Ref)
				if err != nil {
					t.Fatal(err)
				}
				content += string(data)
			}
			if len(content) != test.size {
				t.Errorf("got %d bytes, want %d", len(content), test.size)
			}
		})
	}
}

// TestEventsAreShownWhileTheToolRuns drops the event that no log may have, and counts the others as the result does.
func TestEventsAreShownWhileTheToolRuns(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	listening := make(chan struct{})
	all := []event.Custom{{Type: "step"}, {Type: "done"}, {Type: "step", Data: json.RawMessage(`{"n":2}`)}}
	p := newProbe(tool.EffectNone, func(ctx context.Context, call tool.Call) (tool.Result, error) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for { // output is not kept: repeat it until the runner has subscribed
			call.Progress(".")
			select {
			case <-listening:
				for _, e := range all {
					call.Show(e)
				}
				return tool.Result{Content: "end", Events: all}, nil
			case <-ctx.Done():
				return tool.Result{}, ctx.Err()
			case <-tick.C:
			}
		}
	})
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
	c := newCall(t, "probe", `{}`)
	send(t, b, c)
	var once sync.Once
	var shown []string
	result, err := b.AwaitToolResult(t.Context(), logOf(c), c.ToolCallID, func(p record.ToolProgress) {
		once.Do(func() { close(listening) })
		if p.Event != nil {
			shown = append(shown, fmt.Sprintf("%d %s %s", p.Index, p.Event.Type, p.Event.Data))
		}
	})
	if want := []string{"0 step {}", `1 step {"n":2}`}; err != nil || len(result.Events) != 2 || !slices.Equal(shown, want) {
		t.Errorf("got %q, %d events of the result, %v; want %q", shown, len(result.Events), err, want)
	}
}

func TestProgressPrecedesTheResult(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	listening := make(chan struct{})
	p := newProbe(tool.EffectNone, func(ctx context.Context, call tool.Call) (tool.Result, error) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for { // output is not kept: repeat it until there is a subscriber
			call.Progress("still ")
			select {
			case <-listening:
				call.Progress("\x1b[2Jdone")
				return tool.Result{Content: "end"}, nil
			case <-ctx.Done():
				return tool.Result{}, ctx.Err()
			case <-tick.C:
			}
		}
	})
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{p}})
	c := newCall(t, "probe", `{}`)
	send(t, b, c)
	var heard strings.Builder
	result, err := b.AwaitToolResult(t.Context(), logOf(c), c.ToolCallID, func(p record.ToolProgress) {
		if heard.Len() == 0 {
			close(listening)
		}
		heard.WriteString(p.Delta)
	})
	if err != nil || result.Content != "end" {
		t.Fatalf("got %q, %v", result.Content, err)
	}
	if text := heard.String(); !strings.HasSuffix(text, "still done") {
		t.Errorf("got %q, want it to end in %q", text, "still done")
	}
}
