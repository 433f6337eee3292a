package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// phase is a part of a session, and how long it took.
type phase struct {
	name string
	took time.Duration
}

// phases are those of a session, or the sums of several, in the order in which they came first.
type phases []phase

// total is how long all took together.
func (p phases) total() time.Duration {
	all := time.Duration(0)
	for _, one := range p {
		all += one.took
	}
	return all
}

// plus adds the phases of another session, by name.
func (p phases) plus(others phases) phases {
	sums := slices.Clone(p)
	for _, one := range others {
		if i := slices.IndexFunc(sums, func(sum phase) bool { return sum.name == one.name }); i >= 0 {
			sums[i].took += one.took
		} else {
			sums = append(sums, one)
		}
	}
	return sums
}

func (p phases) String() string {
	texts := make([]string, len(p))
	for i, one := range p {
		texts[i] = fmt.Sprintf("%s %v", one.name, one.took.Round(100*time.Millisecond))
	}
	return strings.Join(texts, ", ")
}

// stopwatch measures phases that follow one another.
type stopwatch struct {
	since  time.Time
	phases phases
}

func newStopwatch() *stopwatch { return &stopwatch{since: time.Now()} }

// end ends a phase, and with it begins the next one.
func (s *stopwatch) end(name string) {
	now := time.Now()
	s.phases = s.phases.plus(phases{{name, now.Sub(s.since)}})
	s.since = now
}
