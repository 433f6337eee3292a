package price

import (
	"math"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
)

func TestCost(t *testing.T) {
	t.Parallel()
	models := map[string]config.Model{
		"big":   {Price: config.Price{Input: 3, Output: 15, CachedInput: 0.3}},
		"plain": {Price: config.Price{Input: 1, Output: 2}},
	}
	tests := []struct {
		name  string
		names []string
		usage event.Usage
		usd   float64
		known bool
	}{
		{"counts input and output", []string{"plain"}, event.Usage{InputTokens: 1e6, OutputTokens: 5e5}, 2, true},
		{"counts cached tokens apart", []string{"big"}, event.Usage{InputTokens: 1e6, CachedInputTokens: 5e5}, 1.65, true},
		{"takes the plain price for cached tokens without one", []string{"plain"}, event.Usage{InputTokens: 1e6, CachedInputTokens: 1e6}, 1, true},
		{"takes the first name that it knows", []string{"big-2026", "big", "plain"}, event.Usage{OutputTokens: 1e6}, 15, true},
		{"knows no price", []string{"other"}, event.Usage{InputTokens: 1e6}, 0, false},
		{"never costs less than nothing", []string{"plain"}, event.Usage{InputTokens: 1, CachedInputTokens: 2e6}, 2, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			usd, known := Cost(models, tt.usage, tt.names...)
			if math.Abs(usd-tt.usd) > 1e-9 || known != tt.known {
				t.Errorf("got %v, %v, want %v, %v", usd, known, tt.usd, tt.known)
			}
		})
	}
}
