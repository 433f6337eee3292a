package e2e

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// providers are the agents that speak the API of a provider, and whether they show their thinking.
var providers = map[string]bool{"mock-openai": false, "mock-anthropic": true}

// eachProvider runs a test against each of them, on the mock of their APIs.
func eachProvider(t *testing.T, run func(t *testing.T, agent string)) {
	t.Parallel()
	if mockMissing != nil {
		t.Skip(mockMissing)
	}
	for agent := range providers {
		t.Run(agent, func(t *testing.T) { t.Parallel(); run(t, agent) })
	}
}

func TestAProvidersAnswerStreamsWithThinkingToolAndResult(t *testing.T) {
	eachProvider(t, func(t *testing.T, agent string) {
		tr := post(t, agent, prompt("What is six by seven?"))
		checkBlocks(t, tr)
		want := "text:start text:delta text:stop " +
			"tool_call:start tool_call:delta tool_call:stop tool_result:start tool_result:stop " +
			"text:start text:delta text:stop done"
		if providers[agent] {
			want = "thinking:start thinking:delta thinking:stop " + want
		}
		want = "metadata " + want
		if got := tr.shape(); got != want {
			t.Fatalf("got\n%s, want\n%s", got, want)
		}
		arguments := 0
		for _, c := range find[event.ToolCall](tr) {
			if c.Stage == event.StageDelta {
				arguments++
			}
		}
		if arguments < 2 {
			t.Errorf("the arguments came in %d pieces, want them streamed", arguments)
		}
		d := tr.done(t)
		if got := answerText(d); got != "Let me calculate.|It is 42." {
			t.Errorf("got %q", got)
		}
		if d.Usage.InputTokens != 70 || d.Usage.OutputTokens != 14 || d.Usage.CostUSD <= 0 {
			t.Errorf("got usage %+v, want 70 and 14 tokens, and their price", d.Usage)
		}
	})
}

func TestAProvidersFailuresBecomeErrorEvents(t *testing.T) {
	eachProvider(t, func(t *testing.T, agent string) {
		for prefix, retryable := range map[string]bool{
			"slow down": true, "too busy": true, "break off": true, "garble": true, "bad key": false,
		} {
			t.Run(prefix, func(t *testing.T) {
				t.Parallel()
				got := only[event.Error](t, post(t, agent, prompt(prefix)))
				if got.Code != apierr.AgentError || got.Retryable != retryable || strings.TrimSpace(got.Message) == "" {
					t.Errorf("got %+v, want agent_error, retryable %t", got, retryable)
				}
			})
		}
	})
}

func TestThinkingOfProviderIsReplayed(t *testing.T) {
	eachProvider(t, func(t *testing.T, agent string) {
		first := post(t, agent, prompt("What is six by seven?"))
		second := post(t, agent, say(first.ThreadID, "Again: six by seven?"))
		if !strings.HasSuffix(answerText(second.done(t)), "It is 42.") {
			t.Errorf("got %s", second.shape())
		}
	})
}
