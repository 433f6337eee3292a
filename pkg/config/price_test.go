package config_test

import (
	"math"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
)

func TestPrice(t *testing.T) {
	t.Parallel()
	c := config.Config{Models: map[string]config.Model{
		"m":            {Price: config.Price{Input: 1}},
		"m-2025-01-01": {Price: config.Price{Input: 2}},
	}}
	tests := map[string]float64{"m": 1, "m-2025-01-01": 2, "m-2026-02-02": 1, "m-20260202": 1, "m-latest": 1, "m-mini": 0, "": 0}
	for model, want := range tests {
		got, ok := c.Price(model)
		if got.Input != want || ok != (want > 0) {
			t.Errorf("%q: got %v, %v, want %v", model, got.Input, ok, want)
		}
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	big := config.Price{Input: 3, Output: 15, CachedInput: 0.3}
	plain := config.Price{Input: 1, Output: 2}
	tests := []struct {
		name  string
		price config.Price
		usage event.Usage
		want  float64
	}{
		{"counts input and output", plain, event.Usage{InputTokens: 1e6, OutputTokens: 5e5}, 2},
		{"counts cached tokens apart", big, event.Usage{InputTokens: 1e6, CachedInputTokens: 5e5}, 1.65},
		{"takes the plain price for cached tokens without one", plain, event.Usage{InputTokens: 1e6, CachedInputTokens: 1e6}, 1},
		{"counts cache writes apart", config.Price{Input: 1, CacheWrite: 1.25}, event.Usage{InputTokens: 1e6, CachedInputTokens: 5e5, CacheWriteTokens: 4e5}, 1.1},
		{"has other prices for a long prompt", config.Price{Input: 1, Output: 1, LongPrompt: config.LongPrompt{Above: 1000, Input: 2, Output: 3}},
			event.Usage{InputTokens: 1e6, OutputTokens: 1e6}, 5},
		{"has the first prices up to there", config.Price{Input: 1, LongPrompt: config.LongPrompt{Above: 1e6, Input: 2}}, event.Usage{InputTokens: 1e6}, 1},
		{"never counts fresh tokens below nothing", plain, event.Usage{InputTokens: 1, CachedInputTokens: 2e6}, 2},
		{"is nothing without a price", config.Price{}, event.Usage{InputTokens: 1e6, OutputTokens: 1e6}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.price.Cost(tt.usage); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
