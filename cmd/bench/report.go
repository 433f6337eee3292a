package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/figure"
	"github.com/agentbus/agentbus/cmd/bench/internal/process"
)

// report prints the results, and compares them with the goals.
type report struct {
	text      strings.Builder
	goals     []goal
	started   time.Time
	loadStart string
}

// sense is the side of its limit on which a figure must be.
type sense string

const (
	atLeast sense = ">="
	atMost  sense = "<="
)

// goal is a figure and its limit.
type goal struct {
	id    string
	what  string
	got   float64
	limit float64
	unit  string
	sense sense
}

func (g goal) reached() bool {
	if g.sense == atLeast {
		return g.got >= g.limit
	}
	return g.got <= g.limit
}

func (g goal) quantity(x float64) string { return strings.TrimSpace(figure.Number(x) + " " + g.unit) }

func newReport() *report {
	return &report{started: time.Now(), loadStart: process.LoadAverage()}
}

// setting prints the conditions of the measurement.
func (r *report) setting(l *environment) {
	o := l.options
	fmt.Fprintf(&r.text, "%s, %s, %d processors; load average %s before, %s after; %s.\n",
		r.started.UTC().Format("2006-01-02 15:04 MST"), runtime.Version(), runtime.NumCPU(), r.loadStart, process.LoadAverage(),
		time.Since(r.started).Round(time.Second))
	fmt.Fprintf(&r.text, "%d streams of %d deltas, %d bytes each on the wire, and %d bytes of other events; medians of %d rounds.\n\n",
		o.streams, o.events, l.size, l.last, o.rounds)
}

func (r *report) section(title string, t figure.Table, note string) {
	fmt.Fprintf(&r.text, "### %s\n\n%s\n", title, &t)
	if note != "" {
		fmt.Fprintf(&r.text, "%s\n\n", note)
	}
}

func (r *report) goal(g goal) { r.goals = append(r.goals, g) }

// finish writes the report to out. It returns an error if a required goal was not reached or not measured.
func (r *report) finish(out io.Writer, l *environment, required []string) error {
	slices.SortStableFunc(r.goals, func(a, b goal) int { return strings.Compare(a.id, b.id) })
	table := figure.Table{Head: []string{"goal", "what", "reached", "goal is", ""}}
	var missed []string
	for _, g := range r.goals {
		verdict := "yes"
		if !g.reached() {
			verdict = "no"
			missed = append(missed, g.id)
		}
		table.Add(g.id, g.what, g.quantity(g.got), string(g.sense)+" "+g.quantity(g.limit), verdict)
	}
	table.Add("P10", "lost, repeated or reordered events, of "+figure.Number(float64(l.checked.Load())), "0", "0", "yes")
	r.section("Goals", table, "")
	if _, err := io.WriteString(out, r.text.String()); err != nil {
		return err
	}
	for _, id := range required {
		measured := slices.ContainsFunc(r.goals, func(g goal) bool { return g.id == id })
		if id != "P10" && (!measured || slices.Contains(missed, id)) {
			return fmt.Errorf("goal %s is required, but was not reached", id)
		}
	}
	return nil
}
