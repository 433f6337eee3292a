package figure_test

import (
	"math"
	"testing"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		samples []float64
		want    float64
	}{
		{"the middle of three", []float64{9, 1, 4}, 4},
		{"between the middle two of four", []float64{4, 1, 2, 9}, 3},
		{"one sample is itself", []float64{7}, 7},
	}
	for _, tt := range tests {
		if got := figure.Median(tt.samples); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := figure.Median(nil); !math.IsNaN(got) {
		t.Errorf("no samples: got %v, want NaN", got)
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	tests := []struct {
		name    string
		samples []time.Duration
		p       float64
		want    time.Duration
	}{
		{"half of a hundred", hundred, 0.5, 50},
		{"99 of a hundred", hundred, 0.99, 99},
		{"more nines than samples", hundred, 0.9999, 100},
		{"the least", hundred, 0, 1},
		{"one sample", []time.Duration{3}, 0.5, 3},
		{"none", nil, 0.5, 0},
	}
	for _, tt := range tests {
		if got := figure.Percentile(tt.samples, tt.p); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	tests := map[float64]string{
		0.278: "0.28", 12.34: "12.3", 123.4: "123", 39876.5: "39,877", 1234567: "1,234,567", -2.5: "-2.50",
		-1200: "-1,200", 1000: "1,000", 2004005: "2,004,005",
	}
	for x, want := range tests {
		if got := figure.Number(x); got != want {
			t.Errorf("%v: got %q, want %q", x, got, want)
		}
	}
	if got := figure.Number(math.NaN()); got != "-" {
		t.Errorf("NaN: got %q", got)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	table := figure.Table{Head: []string{"what", "µs"}}
	table.Add("bare", "7")
	table.Add("agentbus", "12.5")
	want := "| what     | µs   |\n| -------- | ---- |\n| bare     | 7    |\n| agentbus | 12.5 |\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
