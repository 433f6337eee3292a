package process

import (
	"os"
	"testing"
	"time"
)

func TestParseCPU(t *testing.T) {
	t.Parallel()
	const rest = " S 1 2 3 0 -1 4194560 100 0 0 0 250 150 0 0 20 0 9 0 5 6 7"
	tests := []struct {
		name, stat string
		want       time.Duration
	}{
		{"user and system time together", "42 (gateway)" + rest, 4 * time.Second},
		{"a name with blanks and parentheses", "42 (a) b (c)" + rest, 4 * time.Second},
	}
	for _, tt := range tests {
		if got, err := parseCPU(tt.stat); err != nil || got != tt.want {
			t.Errorf("%s: got %v, %v; want %v", tt.name, got, err, tt.want)
		}
	}
	for _, stat := range []string{"", "42 (x) S 1", "42 (x) S 1 2 3 0 -1 4194560 100 0 0 0 a b 0"} {
		if got, err := parseCPU(stat); err == nil {
			t.Errorf("%q gives %v", stat, got)
		}
	}
}

func TestTheCostOfThisProcess(t *testing.T) {
	t.Parallel()
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for deadline := time.Now().Add(30 * time.Second); after-before < 2*tick; {
		if time.Now().After(deadline) {
			t.Fatal("a busy process uses no processor time")
		}
		if after, err = CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
	rss, err := RSS(os.Getpid())
	if err != nil || rss < 1<<20 {
		t.Errorf("a Go process holds %d bytes, %v", rss, err)
	}
}
