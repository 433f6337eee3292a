package loop

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/transcript"
)

// reader is a backend that keeps what it reads, answers with as many words as configured, and summarises as configured.
type reader struct {
	turns   []backend.Turn
	answer  string
	summary func() (string, error)
}

func (r *reader) Run(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	r.turns = append(r.turns, turn)
	outcome := backend.Outcome{Finish: event.FinishStop, Usage: event.Usage{InputTokens: 5, OutputTokens: 5}}
	if !turn.Summarise {
		return outcome, emit(backend.TextDelta(r.answer))
	}
	text, err := r.summary()
	if err != nil {
		return outcome, err
	}
	return outcome, emit(backend.TextDelta(text))
}

func (r *reader) last() backend.Turn { return r.turns[len(r.turns)-1] }

// said joins the texts of a conversation.
func said(messages []backend.Message) string {
	var all []string
	for _, m := range messages {
		for _, part := range m.Parts {
			if text, ok := part.(backend.Text); ok {
				all = append(all, string(m.Role)+": "+text.Text)
			}
		}
	}
	return strings.Join(all, "|")
}

// TestALongThreadIsSummarised plays a thread that outgrows its model over and over.
func TestALongThreadIsSummarised(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		r := &reader{answer: strings.Repeat("word ", 80), summary: func() (string, error) { return "they talked", nil }}
		th.backend, th.agent.CompressAt = r, 400
		var compressed []event.ContextCompressed
		var spent int64
		for range 12 {
			events := th.say("more please")
			compressed = append(compressed, find[event.ContextCompressed](events)...)
			spent += last[event.Done](t, events).Usage.InputTokens
			if size := th.state.Size(); size > 700 {
				t.Fatalf("the model reads %d tokens", size)
			}
		}
		if len(compressed) < 2 || compressed[0].OriginalLength < 400 || compressed[0].CompressedLength > 200 ||
			compressed[0].CompressionRatio <= 0 || compressed[0].CompressionRatio > 0.5 || compressed[0].Strategy != "summary" {
			t.Errorf("got %+v, want some that are worth it", compressed)
		}
		if want := int64(5 * (12 + len(compressed))); spent != want {
			t.Errorf("%d input tokens were counted, want %d: summaries cost too", spent, want)
		}
		if got := said(r.last().Messages); !strings.Contains(got, "they talked") || !strings.HasSuffix(got, "user: more please") {
			t.Errorf("the model read %q", got)
		}
	})
}

func TestThreadContinuesWithoutASummary(t *testing.T) {
	t.Parallel()
	for name, summary := range map[string]func() (string, error){
		"the model fails":        func() (string, error) { return "", errors.New("no") },
		"the model says nothing": func() (string, error) { return " \n", nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				th := newThread(t)
				r := &reader{answer: strings.Repeat("word ", 400), summary: summary}
				th.backend, th.agent.CompressAt = r, 400
				th.say("first")
				events := th.say("second")
				last[event.Done](t, events)
				if got := last[event.Done](t, events).Usage.InputTokens; got != 10 {
					t.Errorf("%d input tokens are counted, want those of the turn and of the summary that failed", got)
				}
				notices := find[event.Notice](events)
				if len(notices) != 1 || !strings.Contains(notices[0].Message, "could not be summarised") {
					t.Errorf("got %+v, want one notice", notices)
				}
				if got := said(r.last().Messages); !strings.HasPrefix(got, "user: first") {
					t.Errorf("the model read %.40q, want the whole thread", got)
				}
			})
		})
	}
}

func TestNothingIsSummarisedThatIsWorthNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		r := &reader{answer: "yes", summary: func() (string, error) { return "", errors.New("not asked") }}
		th.backend, th.agent.CompressAt = r, 100
		events := th.say("hello")
		events = append(events, th.say(strings.Repeat("a long question ", 100))...)
		if n := len(find[event.Notice](events)) + len(find[event.Summary](events)); n != 0 {
			t.Errorf("a thread whose only long part is its last message was summarised")
		}
	})
}

// What the model reads in addition to the conversation is more than the limit alone: a summary would help for no turn at all.
func TestInstructionsAreNoReasonForASummary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		summaries := 0
		th.backend = backendFunc(func(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			if turn.Summarise {
				summaries++
			}
			read := transcript.Tokens(len(turn.System)) + int64(5*len(turn.Messages))
			return backend.Outcome{Finish: event.FinishStop, Usage: event.Usage{InputTokens: read, OutputTokens: 5}}, emit(backend.TextDelta("yes, of course"))
		})
		th.agent.System, th.agent.CompressAt = strings.Repeat("a rule. ", 300), 500
		for range 8 {
			th.say("and this, too?")
		}
		if summaries > 0 {
			t.Errorf("%d summaries were made of a short thread", summaries)
		}
	})
}

func TestAnAbortEndsASummary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		th := newThread(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		r := &reader{answer: strings.Repeat("word ", 400), summary: func() (string, error) {
			cancel(&Abort{Reason: "enough"})
			return "they talked", nil
		}}
		th.backend, th.agent.CompressAt = r, 400
		th.say("first")
		if err := th.run(ctx, event.AgentRequest{Messages: []event.InputMessage{event.UserText("second")}}); err != nil {
			t.Fatal(err)
		}
		if got := last[event.Aborted](t, th.log.events); got.Reason != "enough" || got.Usage.InputTokens != 5 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestMinutesKeepToTheirSize(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 20_000)
	messages := []backend.Message{
		{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "first"}, backend.Media{Input: event.InputPart{Type: "image", Name: "cat.png"}}}},
		{Role: backend.Assistant, Parts: []backend.Part{
			backend.Thinking{Text: "secret"}, backend.Text{Text: long}, backend.Call{Name: "clock", Args: json.RawMessage(`{}`)},
		}},
		{Role: backend.Tool, Parts: []backend.Part{backend.Result{Name: "clock", Content: long, Status: event.ToolSuccess}}},
		{Role: backend.User, Parts: []backend.Part{backend.Text{Text: "last"}}},
	}
	for _, size := range []int{100_000, 10_000, 1000, 300} {
		got := excerpt(messages, size)
		if len(got) > size || !utf8.ValidString(got) || strings.Contains(got, "secret") || !strings.Contains(got, "The user said:\nlast") {
			t.Errorf("%d bytes of at most %d: %.80q", len(got), size, got)
		}
		if size > 1000 && !strings.Contains(got, "first") || size > 1000 && !strings.Contains(got, "cat.png") {
			t.Errorf("what could stay is gone at %d bytes: %.80q", size, got)
		}
	}
}
