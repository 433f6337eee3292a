package loop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// attempt is what a turn of a flaky backend does: it emits chunks and fails, or answers.
type attempt struct {
	chunks []backend.Chunk
	err    error
	usage  event.Usage
}

// flaky is a backend whose turns end as attempts say, and then answer. asked gets the model of each turn.
func flaky(asked *[]string, attempts ...attempt) backend.Model {
	return backendFunc(func(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
		n := len(*asked)
		*asked = append(*asked, turn.Model)
		a := attempt{chunks: []backend.Chunk{backend.TextDelta("ok")}, usage: event.Usage{InputTokens: 100}}
		if n < len(attempts) {
			a = attempts[n]
		}
		for _, c := range a.chunks {
			if err := emit(c); err != nil {
				return backend.Outcome{}, err
			}
		}
		return backend.Outcome{Finish: event.FinishStop, Usage: a.usage, Model: turn.Model}, a.err
	})
}

func passing(wait time.Duration) error {
	e := apierr.New(apierr.AgentError, "overloaded")
	e.Retryable, e.RetryAfter = true, wait
	return e
}

func unavailable() error {
	return apierr.Wrap(fmt.Errorf("%w", backend.ErrUnavailable), apierr.AgentError, "no such model")
}

func TestATurnIsSentAgainWhileNothingWasShown(t *testing.T) {
	t.Parallel()
	final := apierr.New(apierr.AgentError, "bad request")
	shown := []backend.Chunk{backend.TextDelta("Hel")}
	for _, tt := range []struct {
		name     string
		fallback []string
		attempts []attempt
		asked    string // models in their order
		fails    bool
	}{
		{"a cut answer", nil, []attempt{{err: passing(0)}}, "small small", false},
		{"an answer that was cut after a warning", nil, []attempt{{chunks: []backend.Chunk{backend.Warning("hm")}, err: passing(0)}}, "small small", false},
		{"once only", nil, []attempt{{err: passing(0)}, {err: passing(0)}}, "small small", true},
		{"not after text", []string{"large"}, []attempt{{chunks: shown, err: passing(0)}}, "small", true},
		{"not after a long wait", nil, []attempt{{err: passing(time.Minute)}}, "small", true},
		{"not what cannot pass", []string{"large"}, []attempt{{err: final}}, "small", true},
		{"to a fallback", []string{"large", "other"}, []attempt{{err: passing(0)}, {err: passing(0)}}, "small small large", false},
		{"to a fallback at once", []string{"large"}, []attempt{{err: passing(time.Minute)}}, "small large", false},
		{"to the next fallback where a model is missing", []string{"large", "other"}, []attempt{{err: unavailable()}, {err: unavailable()}}, "small large other", false},
		{"not further than the fallbacks", []string{"large"}, []attempt{{err: unavailable()}, {err: unavailable()}}, "small large", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				th := newThread(t)
				th.agent.Fallback, th.backend = tt.fallback, flaky(&asked, tt.attempts...)
				events := th.say("hi")
				if got := strings.Join(asked, " "); got != tt.asked {
					t.Errorf("got turns of %q, want %q", got, tt.asked)
				}
				end := events[len(events)-1].Body.Name()
				if (end == event.NameError) != tt.fails {
					t.Errorf("got the end %s, want failure %t", end, tt.fails)
				}
				if tt.fails {
					return
				}
				notices := len(tt.asked) > len("small small") || len(tt.fallback) > 0
				if got := slices.ContainsFunc(events, func(e event.Event) bool {
					n, ok := e.Body.(event.Notice)
					return ok && strings.Contains(n.Message, "does not answer, so")
				}); got != notices {
					t.Errorf("got a notice of the fallback: %t, want %t", got, notices)
				}
			})
		})
	}
}

func TestAFallbackAnswersTheRestOfTheRequestAtItsPrice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		th := newThread(t)
		th.agent.Fallback, th.prices = []string{"large"}, map[string]float64{"small": 0.001, "large": 0.5}
		call := []backend.Chunk{backend.CallStart{Name: "calculator"}, backend.CallDelta{Args: "{}"}}
		th.backend = flaky(&asked, attempt{err: unavailable(), usage: event.Usage{InputTokens: 10}}, attempt{chunks: call, usage: event.Usage{InputTokens: 2}})
		done := last[event.Done](t, th.say("hi"))
		if got := strings.Join(asked, " "); got != "small large large" {
			t.Errorf("got turns of %q", got)
		}
		if want := 10*0.001 + 2*0.5 + 100*0.5; done.Usage.CostUSD != want || done.Usage.InputTokens != 112 {
			t.Errorf("got %+v, want 112 tokens for $%v", done.Usage, want)
		}
		th.say("again")
		if asked[3] != "small" {
			t.Errorf("the next request began with %q, want the agent's model", asked[3])
		}
	})
}

func TestATooLongConversationIsCompressedAndSentAgain(t *testing.T) {
	t.Parallel()
	tooLong := apierr.Wrap(fmt.Errorf("%w", backend.ErrTooLong), apierr.AgentError, "too long")
	for name, always := range map[string]bool{"once too long": false, "always too long": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := newThread(t)
			th.agent.CompressAt = 0 // the window is not known
			th.backend = backendFunc(func(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
				return backend.Outcome{Finish: event.FinishStop}, emit(backend.TextDelta(strings.Repeat("long ", 1000)))
			})
			for range 4 {
				th.say("say something long")
			}
			var summaries, turns int
			th.backend = backendFunc(func(_ context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
				if turn.Summarise {
					summaries++
					return backend.Outcome{Finish: event.FinishStop}, emit(backend.TextDelta("they spoke"))
				}
				turns++
				if len(turn.Messages) > 7 || always {
					return backend.Outcome{}, tooLong
				}
				return backend.Outcome{Finish: event.FinishStop}, emit(backend.TextDelta("fine"))
			})
			events := th.say("and now?")
			end := events[len(events)-1].Body.Name()
			if summaries != 1 || turns != 2 || (end == event.NameError) != always {
				t.Errorf("got %d summaries, %d turns and the end %s, want 1, 2 and failure %t", summaries, turns, end, always)
			}
		})
	}
}

func TestALimitOfCostWithoutAPriceIsReported(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		limit  float64
		prices map[string]float64
		want   int
	}{
		"without a price":      {1, map[string]float64{"other": 1}, 1},
		"with a price":         {1, map[string]float64{"small": 0.000001}, 0},
		"with a price of zero": {1, map[string]float64{"small": 0}, 0},
		"without such a limit": {0, map[string]float64{"other": 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			call := attempt{chunks: []backend.Chunk{backend.CallStart{Name: "calculator"}, backend.CallDelta{Args: "{}"}}, usage: event.Usage{InputTokens: 5}}
			th := newThread(t)
			th.agent.CostUSD, th.prices, th.backend = tt.limit, tt.prices, flaky(&asked, call)
			got := 0
			for _, e := range th.say("hi") {
				if n, ok := e.Body.(event.Notice); ok && strings.Contains(n.Message, "limit of cost has no effect") {
					got++
				}
			}
			if got != tt.want {
				t.Errorf("got %d notices, want %d", got, tt.want)
			}
		})
	}
}

// An agent on another server may name no model.
func TestALimitOfCostWithoutAModelIsReported(t *testing.T) {
	t.Parallel()
	var asked []string
	th := newThread(t)
	th.agent.CostUSD, th.agent.Model, th.prices = 1, "", map[string]float64{"other": 1}
	th.backend = flaky(&asked, attempt{usage: event.Usage{InputTokens: 5}})
	var got []string
	for _, e := range th.say("hi") {
		if n, ok := e.Body.(event.Notice); ok {
			got = append(got, n.Message)
		}
	}
	if want := []string{"the agent reports neither its cost nor its model, so the limit of cost has no effect"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
