package event_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestCostsHaveAtMostNineDecimals(t *testing.T) {
	t.Parallel()
	sum := event.Usage{CostUSD: 0.1}.Add(event.Usage{CostUSD: 0.2})
	tests := []struct {
		does string
		got  float64
		want float64
	}{
		{"a sum", sum.CostUSD, 0.3},
		{"a difference", event.Usage{CostUSD: 0.3}.Sub(event.Usage{CostUSD: 0.1}).CostUSD, 0.2},
		{"a small cost", event.RoundUSD(2.7600000000000003e-05), 2.76e-05},
		{"less than a billionth", event.RoundUSD(1e-10), 0},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.does, tt.got, tt.want)
		}
	}
	line, err := event.Encode(event.Event{Body: event.Done{Usage: sum}})
	if err != nil || !strings.Contains(string(line), `"costUsd":0.3}`) {
		t.Errorf("got %s, %v; want costUsd 0.3", line, err)
	}
}
