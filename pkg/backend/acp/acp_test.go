package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/backendtest"
	"github.com/agentbus/agentbus/pkg/backend/internal/permission"
	"github.com/agentbus/agentbus/pkg/event"
)

// open returns the backend of the fake agent, and the folder that it works in.
func open(t *testing.T, can string, o Options) (*Backend, string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.Command, o.Workspace = self, t.TempDir()
	o.Env = map[string]string{fakeVariable: "yes," + can}
	return New(o), o.Workspace
}

func user(text string) backend.Message {
	return backend.Message{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}
}

func say(text string) backend.Turn { return backend.Turn{Messages: []backend.Message{user(text)}} }

func left(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// reports says whether a turn gave a chunk.
func reports(a backendtest.Sent, want string) bool {
	for _, c := range a.Chunks {
		if fmt.Sprintf("%T %+v", c, c) == want {
			return true
		}
	}
	return false
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, can := range []string{"load", "resume"} {
		t.Run(can, func(t *testing.T) {
			t.Parallel()
			backendtest.Run(t, func(t *testing.T) backendtest.Subject {
				b, _ := open(t, can, Options{})
				return backendtest.Subject{
					Backend: b, Resumes: true,
					Text: say("say: hello"), Thinking: say("think: hello"), Tools: say("tools:"), Retryable: say("fail: the model is overloaded"),
					Final: say("fail: no such model"), Endless: say("endless:"),
				}
			})
		})
	}
}

func TestToolsAndPlansAreReported(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "", Options{})
	a := backendtest.Send(t.Context(), b, backend.State{}, say("tools:"))
	if a.Err != nil || a.Text != "it is 42" {
		t.Fatalf("got %q, %v", a.Text, a.Err)
	}
	for _, want := range []string{
		"backend.ToolStarted {ID:c1 Name:Multiply Args:[123 34 101 120 112 114 101 115 115 105 111 110 34 58 34 54 42 55 34 125] Signature:}",
		"backend.ToolProgress {ID:c1 Delta:4}",
		"backend.ToolEnded {ID:c1 Status: Content:42 Summary: Elapsed:0s}",
		"backend.Plan {Steps:[{Content:multiply Done:true} {Content:say it Done:false}]}",
		fmt.Sprintf("backend.Step %+v", backend.Step{}),
	} {
		if !reports(a, want) {
			t.Errorf("missing %s in %+v", want, a.Chunks)
		}
	}
}

func TestALoadedSessionIsNotRepeated(t *testing.T) {
	t.Parallel()
	b, dir := open(t, "load", Options{})
	first := backendtest.Send(t.Context(), b, backend.State{}, backend.Turn{System: "Be brief.", Messages: say("say: one").Messages})
	if prompt := left(t, dir, "prompt"); !strings.Contains(prompt, `"Be brief.\n\nsay: one"`) {
		t.Errorf("got the prompt %s, want the instructions first", prompt)
	}
	turn := backend.Turn{System: "Be brief.", Known: 1, Messages: []backend.Message{user("say: one"), user("say: two")}}
	second := backendtest.Send(t.Context(), b, first.State, turn)
	if second.Err != nil || second.Text != "two" || second.State.ID != first.State.ID {
		t.Errorf("got %q, %v in session %s, want two in %s", second.Text, second.Err, second.State.ID, first.State.ID)
	}
	if prompt := left(t, dir, "prompt"); strings.Contains(prompt, "one") || strings.Contains(prompt, "brief") {
		t.Errorf("got the prompt %s, want the new message alone", prompt)
	}
}

func TestASessionThatCannotBeOpenedBeginsAnewWithTheConversation(t *testing.T) {
	t.Parallel()
	for name, can := range map[string]string{"the program cannot load sessions": "", "the session is gone": "load"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, dir := open(t, can, Options{})
			turn := backend.Turn{Known: 1, Messages: []backend.Message{user("say: one"), user("say: two")}}
			a := backendtest.Send(t.Context(), b, backend.State{ID: "lost"}, turn)
			if a.Err != nil || a.Text != "two" || a.State.ID == "lost" {
				t.Errorf("got %q, %v in session %s", a.Text, a.Err, a.State.ID)
			}
			if prompt := left(t, dir, "prompt"); !strings.Contains(prompt, "one") {
				t.Errorf("got the prompt %s, want the whole conversation", prompt)
			}
			if _, warned := a.Chunks[0].(backend.Warning); !warned {
				t.Errorf("got %+v first, want a warning", a.Chunks[0])
			}
		})
	}
}

func TestPermissionsFollowTheMode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, kind, options string
		mode                permission.Mode
		want                string
	}{
		{"default allows reading", "read", ``, permission.Reading, "chose a"},
		{"default rejects edits", "edit", ``, permission.Reading, "chose r"},
		{"acceptEdits allows edits", "edit", ``, permission.Edits, "chose a"},
		{"acceptEdits rejects programs", "execute", ``, permission.Edits, "chose r"},
		{"bypassPermissions allows programs", "execute", ``, permission.All, "chose a"},
		{"the mode of a task has priority", "execute", `{"permissionMode":"default"}`, permission.All, "chose r"},
		{"an allowed tool needs no permission", "execute", `{"allowedTools":["Run tests"]}`, permission.Reading, "chose a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, _ := open(t, "", Options{Permissions: tt.mode})
			turn := say("permit: " + tt.kind)
			turn.Options = []byte(tt.options)
			a := backendtest.Send(t.Context(), b, backend.State{}, turn)
			if a.Err != nil || a.Text != tt.want {
				t.Fatalf("got %q, %v, want %q", a.Text, a.Err, tt.want)
			}
			denied := reports(a, "backend.ToolEnded {ID:c1 Status:denied Content:rejected Summary: Elapsed:0s}")
			if denied != (tt.want == "chose r") {
				t.Errorf("got %+v, want a denied call only if it was rejected", a.Chunks)
			}
		})
	}
}

func TestATaskWithoutToolsIsRefused(t *testing.T) {
	t.Parallel()
	for options, refused := range map[string]bool{`{"allowedTools":[]}`: true, `{"allowedTools":null}`: false, `{}`: false} {
		b, _ := open(t, "", Options{Permissions: permission.All})
		turn := say("permit: read")
		turn.Options = []byte(options)
		a := backendtest.Send(t.Context(), b, backend.State{}, turn)
		if (apierr.CodeOf(a.Err) == apierr.InvalidMessageFormat) != refused || (a.Err != nil) != refused {
			t.Errorf("%s: got %v, want a refusal %t", options, a.Err, refused)
		}
	}
}

func TestTheUserIsAskedForAPermission(t *testing.T) {
	t.Parallel()
	const asks, other = `{"command":"make test"}`, `{"command":"make clean"}`
	tests := []struct {
		name, args string // the arguments that the user has decided about
		status     event.ToolStatus
		content    string
		want       string // what became of the call; "" = the user is asked again
	}{
		{"allowed", asks, event.ToolSuccess, "the user allowed this call", "chose a"},
		{"denied", asks, event.ToolDenied, "the user denied this call: not now", "chose r"},
		{"expired", asks, event.ToolDenied, "expired: no client acted in time", ""},
		{"allowed with other arguments", other, event.ToolSuccess, "the user allowed this call", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, dir := open(t, "load", Options{})
			first := backendtest.Send(t.Context(), b, backend.State{}, say("permit: execute"))
			if first.Err != nil || first.Outcome.Finish != event.FinishToolCalls || first.State.ID == "" {
				t.Fatalf("got %+v, %v, want a turn that waits for the user", first.Outcome, first.Err)
			}
			for _, want := range []string{
				"backend.CallStart {Index:0 Name:Run tests Gate:agent_approval}", "backend.CallDelta {Index:0 Args:" + asks + "}",
				"backend.CallSignature {Index:0 Signature:permission}",
			} {
				if !reports(first, want) {
					t.Fatalf("missing %s in %+v", want, first.Chunks)
				}
			}
			call := backend.Call{ID: "call_1", Name: "Run tests", Args: []byte(tt.args), Signature: "permission"}
			turn := backend.Turn{Known: 3, Messages: []backend.Message{
				user("permit: execute"),
				{Role: backend.Assistant, Parts: []backend.Part{call}},
				{Role: backend.Tool, Parts: []backend.Part{backend.Result{ID: "call_1", Name: "Run tests", Content: tt.content, Status: tt.status}}},
				user("permit: execute"), // the fake asks again only for this line
			}}
			second := backendtest.Send(t.Context(), b, first.State, turn)
			if second.Err != nil || second.Text != tt.want || (second.Outcome.Finish == event.FinishToolCalls) != (tt.want == "") {
				t.Errorf("got %q and %+v, %v, want %q", second.Text, second.Outcome, second.Err, tt.want)
			}
			if prompt := left(t, dir, "prompt"); !strings.Contains(prompt, "Run tests {") {
				t.Errorf("got the prompt %s, want what the user has decided", prompt)
			}
		})
	}
}

func TestATaskAsksForWhatItsModeDoesNotPermit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, options string
		asks          bool
	}{
		{"execute", `{"permissionMode":"acceptEdits","approvals":"ask"}`, true},
		{"edit", `{"permissionMode":"acceptEdits","approvals":"ask"}`, false},
		{"execute", `{"permissionMode":"acceptEdits","approvals":"deny"}`, false},
	} {
		b, _ := open(t, "", Options{})
		turn := say("permit: " + tt.kind)
		turn.Options = []byte(tt.options)
		a := backendtest.Send(t.Context(), b, backend.State{}, turn)
		if a.Err != nil || (a.Outcome.Finish == event.FinishToolCalls) != tt.asks {
			t.Errorf("%s with %s: got %+v, %v, want an approval: %t", tt.kind, tt.options, a.Chunks, a.Err, tt.asks)
		}
	}
}

func TestAPermissionForAllCallsIsDenied(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "always", Options{})
	a := backendtest.Send(t.Context(), b, backend.State{}, say("permit: execute"))
	if a.Err != nil || a.Text != "chose r" ||
		!reports(a, "backend.Warning acp.test asks to allow all calls of a kind at once; that is denied, and the user is not asked") {
		t.Errorf("got %q, %+v, %v, want a denial and a warning", a.Text, a.Chunks, a.Err)
	}
}

func TestAModelIsSelected(t *testing.T) {
	t.Parallel()
	b, dir := open(t, "models", Options{Auth: "key"})
	turn := say("say: hi")
	turn.Model = "large"
	a := backendtest.Send(t.Context(), b, backend.State{}, turn)
	if a.Err != nil || a.Outcome.Model != "large" || !strings.Contains(left(t, dir, "option"), `"value":"large"`) {
		t.Errorf("got %+v, %v, want the model large", a.Outcome, a.Err)
	}
	if got := left(t, dir, "auth"); got != `{"methodId":"key"}` {
		t.Errorf("got the login %s", got)
	}
	turn.Model = "huge"
	if a := backendtest.Send(t.Context(), b, backend.State{}, turn); a.Err == nil || !strings.Contains(a.Err.Error(), `["small" "large"]`) {
		t.Errorf("got %v, want an error that lists the models", a.Err)
	}
}

func TestPicturesReachTheProgram(t *testing.T) {
	t.Parallel()
	picture := backend.Media{Input: event.InputPart{Type: "image", Data: []byte("png"), MediaType: "image/png"}}
	turn := backend.Turn{Messages: []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "say: seen"}, picture}}}}
	for can, want := range map[string]string{"image": `{"type":"image","data":"cG5n","mimeType":"image/png"}`, "": `which cannot be shown here`} {
		b, dir := open(t, can, Options{})
		if a := backendtest.Send(t.Context(), b, backend.State{}, turn); a.Err != nil || a.Text != "seen" {
			t.Errorf("got %q, %v", a.Text, a.Err)
		}
		if got := left(t, dir, "prompt"); !strings.Contains(got, want) {
			t.Errorf("got the prompt %s, want %s", got, want)
		}
	}
}

func TestFilesAndTerminalsAreNotOffered(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "", Options{})
	if a := backendtest.Send(t.Context(), b, backend.State{}, say("files:")); a.Err != nil || !strings.Contains(a.Text, "-32601") {
		t.Errorf("got %q, %v, want a refusal", a.Text, a.Err)
	}
}

func TestTurnsEndAsTheProgramSays(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "", Options{})
	for reason, want := range map[string]event.FinishReason{
		"end_turn": event.FinishStop, "max_tokens": event.FinishLength, "max_turn_requests": event.FinishMaxTurns,
		"refusal": event.FinishContentFilter, "from_the_future": event.FinishStop,
	} {
		if a := backendtest.Send(t.Context(), b, backend.State{}, say("stop: "+reason)); a.Err != nil || a.Outcome.Finish != want {
			t.Errorf("%s: got %q, %v, want %q", reason, a.Outcome.Finish, a.Err, want)
		}
	}
}

func TestATurnStopsAtItsBudget(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "", Options{})
	turn := say("cost:")
	turn.Limits.CostUSD = 0.5
	a := backendtest.Send(t.Context(), b, backend.State{}, turn)
	if a.Err != nil || a.Outcome.Finish != event.FinishBudget || a.Outcome.Usage.CostUSD < 0.49 || a.Outcome.Usage.CostUSD > 0.61 {
		t.Errorf("got %+v, %v, want the budget of 0.5", a.Outcome, a.Err)
	}
}

func TestFailuresSayWhatToDo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, can, prompt string
		o                 Options
		want              string
		retryable         bool
	}{
		{"the program dies", "", "die: out of memory", Options{}, "Error: out of memory; try again", true},
		{"it needs a login", "login", "say: hi", Options{}, "set cli.auth of the agent: log in first", false},
		{"it says nothing", "", "silent:", Options{Quiet: 300 * time.Millisecond}, "said nothing for too long", true},
		{"it cancels its turn", "", "stop: cancelled", Options{}, "has cancelled its turn", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, _ := open(t, tt.can, tt.o)
			a := backendtest.Send(t.Context(), b, backend.State{}, say(tt.prompt))
			f, ok := errors.AsType[*apierr.Error](a.Err)
			if !ok || !strings.Contains(f.Message, tt.want) || f.Retryable != tt.retryable {
				t.Errorf("got %v, want %q, retryable %t", a.Err, tt.want, tt.retryable)
			}
		})
	}
	missing := New(Options{Command: "no-such-agent", Workspace: t.TempDir()})
	if err := missing.Available(t.Context()); err == nil || !strings.Contains(err.Error(), "install it") {
		t.Errorf("got %v, want the remedy", err)
	}
}

func TestAProgramThatDoesNotStopIsKilled(t *testing.T) {
	t.Parallel()
	b, _ := open(t, "", Options{})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := b.Start(ctx, backend.Start{ThreadID: "thr_1"})
	if err != nil {
		t.Fatal(err)
	}
	var at time.Time
	_, err = s.Send(ctx, say("deaf:"), func(c backend.Chunk) error {
		if _, ok := c.(backend.TextDelta); ok {
			at = time.Now()
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || time.Since(at) > time.Second {
		t.Errorf("got %v after %s, want the cancellation within a second", err, time.Since(at))
	}
}
