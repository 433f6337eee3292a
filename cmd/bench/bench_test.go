package main

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/bare"
	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/load"
)

func TestParse(t *testing.T) {
	t.Parallel()
	o, err := parse([]string{"-streams", "7", "-only", "first,resume", "-require", "P4, P7"})
	if err != nil {
		t.Fatal(err)
	}
	if o.streams != 7 || o.rounds != 3 || !slices.Equal(o.only, []string{"first", "resume"}) || !slices.Equal(o.require, []string{"P4", "P7"}) {
		t.Errorf("got %+v", o)
	}
	for wrong, args := range map[string][]string{
		"the experiment does not exist": {"-only", "fastest"},
		"at least 1":                    {"-rounds", "0"},
		"unexpected argument":           {"quick"},
	} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%v: got %v, want %q", args, err, wrong)
		}
	}
	if _, err := parse([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: got %v", err)
	}
}

func TestRequiredGoals(t *testing.T) {
	t.Parallel()
	reached := goal{"P7", "resume", 2, 3, "ms", atMost}
	missed := goal{"P1", "rate", 0.5, 0.9, "", atLeast}
	unknown := goal{"P5", "memory", math.NaN(), 1.2, "", atMost}
	tests := []struct {
		name     string
		required []string
		fails    bool
	}{
		{"none is required", nil, false},
		{"one that is reached", []string{"P7"}, false},
		{"one that is missed", []string{"P7", "P1"}, true},
		{"one that was not measured", []string{"P4"}, true},
		{"one with an invalid figure", []string{"P5"}, true},
		{"the order of events, which has been checked", []string{"P10"}, false},
	}
	for _, tt := range tests {
		var out bytes.Buffer
		r := newReport()
		r.goals = []goal{reached, missed, unknown}
		if err := r.finish(&out, new(environment), tt.required); (err != nil) != tt.fails {
			t.Errorf("%s: got %v", tt.name, err)
		}
		for _, row := range []string{
			"| P1   | rate", "2.00 ms | <= 3.00 ms | yes |", "0.50    | >= 0.90    | no  |", "-       | <= 1.20    | no  |",
		} {
			if !strings.Contains(out.String(), row) {
				t.Errorf("%s: %q is missing in\n%s", tt.name, row, &out)
			}
		}
	}
}

func TestReportsOfSamples(t *testing.T) {
	t.Parallel()
	samples := []float64{3, 1, 2}
	three := percentiles{samples, samples, samples}
	tests := map[string]struct {
		e    experiment
		want string
	}{
		"throughput": {&throughput{bus: samples, bare: samples, hub: samples, raw: samples, raw16: samples}, "| P1"},
		"latency":    {&latency{bus: three, bare: three}, "| P3"},
		"first":      {&first{event: three, delta: three}, "| P4"},
		"resume":     {&resume{near: three, far: three}, "| P7"},
		"slow":       {&slow{peak: samples, alone: three, amid: three, middle: samples, ratios: samples}, "| P11"},
		"idle":       {&idle{gateway: samples, nats: samples, bare: samples, alone: samples, among: samples}, "| P5"},
		"always":     {&always{synced: samples, relaxed: samples}, "| P9"},
	}
	for _, e := range experiments() {
		var out bytes.Buffer
		r := newReport()
		tests[e.name].e.report(r)
		if err := r.finish(&out, new(environment), nil); err != nil {
			t.Errorf("%s: %v", e.name, err)
		}
		if !strings.Contains(out.String(), tests[e.name].want) {
			t.Errorf("%s: no %q in\n%s", e.name, tests[e.name].want, &out)
		}
	}
}

// onBare is an environment whose bare server runs in the test, and that has nothing else.
func onBare(t *testing.T) *environment {
	t.Helper()
	server := httptest.NewServer(bare.Handler())
	t.Cleanup(server.Close)
	client := load.New(streamBuffer)
	t.Cleanup(client.Close)
	return &environment{options: options{events: 100}, client: client, bare: &bareServer{URL: server.URL}, size: 300, last: 4000}
}

func TestAllReadsStreamsOfOneShape(t *testing.T) {
	t.Parallel()
	l := onBare(t)
	results, took, err := l.all(t.Context(), 5, time.Millisecond, l.bareStream(50, 0))
	if err != nil {
		t.Fatal(err)
	}
	if n := events(results); n != 5*51 || l.checked.Load() != int64(n) {
		t.Errorf("got %d events, %d checked, want %d", n, l.checked.Load(), 5*51)
	}
	if took < 4*time.Millisecond {
		t.Errorf("five streams opened a millisecond apart took %v", took)
	}
	for _, result := range results {
		if want := 50*300 + 2000; result.Bytes != want {
			t.Errorf("got %d bytes, want %d: half the deltas, half of the rest", result.Bytes, want)
		}
	}
}

func TestFeedFillsATopic(t *testing.T) {
	t.Parallel()
	l := onBare(t)
	topic := l.bare.URL + "/topics/a"
	fed := make(chan error, 1)
	go func() { fed <- l.feed(t.Context(), topic, 100) }() // ends when all is read
	result, err := l.client.Read(t.Context(), load.Request{Method: http.MethodGet, URL: topic, Deltas: 100})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-fed; err != nil {
		t.Fatal(err)
	}
	if result.Bytes != 101*300 {
		t.Errorf("got %d bytes, want %d", result.Bytes, 101*300)
	}
}

func TestHoldKeepsStreamsOpen(t *testing.T) {
	t.Parallel()
	l := onBare(t)
	leave, err := l.hold(t.Context(), 100, load.Request{Method: http.MethodGet, URL: l.bare.URL + "/idle"})
	if err != nil {
		t.Fatal(err)
	}
	if err := leave(); err != nil {
		t.Errorf("left: %v", err)
	}
	if _, err := l.hold(t.Context(), 100, load.Request{Method: http.MethodGet, URL: l.bare.URL + "/nothing"}); err == nil {
		t.Error("streams that cannot be opened give no error")
	}
}

func TestMinusGoesRoundByRound(t *testing.T) {
	t.Parallel()
	got := minus([]float64{5, 1, 9}, []float64{1, 1, 2})
	if !slices.Equal(got, []float64{4, 0, 7}) || figure.Median(got) != 4 {
		t.Errorf("got %v", got)
	}
}
