package toolexecutor_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

func TestDrain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		effect  tool.Effect
		takes   bool             // the first run outlasts the grace
		status  event.ToolStatus // after a second executor has come
		content string
	}{
		{"lets a running call finish", tool.EffectUnsafe, false, event.ToolSuccess, "first run"},
		{"gives back a safe call that takes too long", tool.EffectNone, true, event.ToolSuccess, "second run"},
		{"says that the outcome of an unsafe call that takes too long is unknown", tool.EffectUnsafe, true, event.ToolUnknown, "may or may not"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := bustest.New(t)
			runs, finish := make(chan struct{}), make(chan struct{})
			first := newProbe(test.effect, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
				close(runs)
				select {
				case <-ctx.Done():
					return tool.Result{}, ctx.Err()
				case <-finish:
					return tool.Result{Content: "first run"}, nil
				}
			})
			grace := waitTimeout
			if test.takes {
				grace = 10 * time.Millisecond
			}
			stop := start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{first}, Grace: grace})
			c := newCall(t, "probe", `{}`)
			send(t, b, c)
			<-runs
			if !test.takes {
				time.AfterFunc(100*time.Millisecond, func() { close(finish) })
			}
			stop()
			start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: []tool.Tool{newProbe(test.effect, says("second run"))}})
			if result := await(t, b, c); result.Status != test.status || !strings.Contains(result.Content, test.content) {
				t.Errorf("got %s %q, want %s with %q", result.Status, result.Content, test.status, test.content)
			}
		})
	}
}

// The environment of a child: where its bus is, and where its tools write down that they ran.
const (
	childURL   = "TOOLEXECUTOR_TEST_URL"
	childMarks = "TOOLEXECUTOR_TEST_MARKS"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		child(url)
		return
	}
	os.Exit(m.Run())
}

// child is an executor in a process of its own whose tools never return. It ends when it is killed.
func child(url string) {
	ctx := context.Background()
	b, err := bus.Connect(ctx, bus.Options{URL: url, Name: "child"})
	if err == nil {
		err = b.Verify(ctx)
	}
	var e *toolexecutor.Executor
	if err == nil {
		e, err = toolexecutor.New(toolexecutor.Deps{
			Bus: toolexecutor.BusOf(b), Name: "child", Tools: markers(os.Getenv(childMarks), true), Log: slog.New(slog.DiscardHandler),
		})
	}
	if err == nil {
		err = e.Run(ctx)
	}
	fmt.Fprintln(os.Stderr, "child:", err)
	os.Exit(1)
}

// markers are tools, one for each effect, that append a line to a file of theirs for each run: the truth about runs,
// whatever the records say.
func markers(dir string, hang bool) []tool.Tool {
	var tools []tool.Tool
	for _, effect := range []tool.Effect{tool.EffectNone, tool.EffectIdempotent, tool.EffectUnsafe} {
		p := newProbe(effect, func(ctx context.Context, _ tool.Call) (tool.Result, error) {
			f, err := os.OpenFile(filepath.Join(dir, string(effect)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return tool.Result{}, err
			}
			if _, err := f.WriteString("run\n"); err != nil {
				return tool.Result{}, err
			}
			if err := f.Close(); err != nil {
				return tool.Result{}, err
			}
			if hang {
				fmt.Fprintln(os.Stdout, "runs", effect)
				<-ctx.Done()
			}
			return tool.Result{Content: "finished"}, nil
		})
		p.spec.Name = "mark_" + string(effect)
		tools = append(tools, p)
	}
	return tools
}

// TestKilledInTheMiddle kills an executor's process while it runs a call of each effect. The broker gives the calls to
// another when it has no sign of the first for half a minute.
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	b := server.Connect(t, "test")
	marks := t.TempDir()
	calls := map[tool.Effect]record.ToolCall{}
	for _, effect := range []tool.Effect{tool.EffectNone, tool.EffectIdempotent, tool.EffectUnsafe} {
		calls[effect] = newCall(t, "mark_"+string(effect), `{}`)
		send(t, b, calls[effect])
	}
	process := exec.CommandContext(t.Context(), os.Args[0])
	process.Env = append(os.Environ(), childURL+"="+server.URL(), childMarks+"="+marks)
	process.Stderr = os.Stderr
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for range calls { // each is running
		if !lines.Scan() {
			t.Fatal("the child ended before it ran its calls")
		}
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // it was killed, and says so

	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Tools: markers(marks, false)})
	for effect, want := range map[tool.Effect]struct {
		status event.ToolStatus
		runs   int
	}{
		tool.EffectNone:       {event.ToolSuccess, 2},
		tool.EffectIdempotent: {event.ToolSuccess, 2},
		tool.EffectUnsafe:     {event.ToolUnknown, 1},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		result, err := b.AwaitToolResult(ctx, logOf(calls[effect]), calls[effect].ToolCallID, func(record.ToolProgress) {})
		cancel()
		if err != nil {
			t.Fatalf("%s: no result: %v", effect, err)
		}
		text, err := os.ReadFile(filepath.Join(marks, string(effect)))
		if err != nil {
			t.Fatal(err)
		}
		if runs := strings.Count(string(text), "run\n"); result.Status != want.status || runs != want.runs {
			t.Errorf("%s: got %s after %d runs, want %s after %d", effect, result.Status, runs, want.status, want.runs)
		}
	}
}
