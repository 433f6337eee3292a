package sqlstore

import (
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
)

// longRun is how many consecutive deltas are stored in a separate row. Fewer stay with the events around them: a row
// costs more than reading past a few deltas.
const longRun = 16

// row is a row of frames: consecutive events of one frame.
type row struct {
	key              Key
	part             event.Frame
	beyond           bool  // it holds more than deltas
	earliest, latest int64 // of its events
	last             int64 // the time of its last event
	again            bool  // its events were stored before, in a longer row
}

// roomy is how many bytes of lines a row may have and still be joined by more.
const roomy = 16 << 10

// join makes one row of those of a request that follow one another. A slow stream comes in frames of one event each, and
// a row costs far more than an event.
func join(rows []row) []row {
	joined := make([]row, 0, len(rows))
	last := make(map[Key]int, len(rows)) // index in joined of a request's newest row
	for _, r := range rows {
		i, ok := last[r.key]
		if ok && joined[i].takes(r) {
			joined[i].add(r)
			continue
		}
		last[r.key] = len(joined)
		joined = append(joined, r)
	}
	return joined
}

// takes reports whether next may become a part of r: both are of one kind, so that deltas stay separate.
func (r row) takes(next row) bool {
	return r.part.Next() == next.part.First && r.part.Incarnation == next.part.Incarnation &&
		r.beyond == next.beyond && len(r.part.Lines)+len(next.part.Lines) <= roomy
}

func (r *row) add(next row) {
	r.part.Names = slices.Concat(r.part.Names, next.part.Names)
	r.part.Lines = slices.Concat(r.part.Lines, next.part.Lines)
	r.earliest, r.latest, r.last = min(r.earliest, next.earliest), max(r.latest, next.latest), next.last
}

// split makes the rows of a frame, mostly one. A long run of deltas gets a separate row, so that transcripts and
// messages need not read it.
func split(k Key, fr event.Frame) []row {
	s := splitter{key: k, rest: fr}
	for line := range fr.Each() {
		g := readHeadAt(line)
		if g.at.IsZero() {
			g.at = fr.Time // an event that cannot be read is kept as it is, under the time of its frame
		}
		if !g.delta {
			s.endRun()
		}
		s.marks = append(s.marks, mark{size: len(line.JSON) + 1, at: micros(g.at), delta: g.delta})
		if g.delta {
			s.run++
		}
	}
	s.endRun()
	s.cut(len(s.marks))
	return s.rows
}

// splitter is on its way through a frame.
type splitter struct {
	key   Key
	rest  event.Frame // what is in no row yet
	marks []mark      // of the events of rest that it has come past
	run   int         // how many of them, at the end, are deltas
	rows  []row
}

// mark is what is known of an event.
type mark struct {
	size  int // of its line
	at    int64
	delta bool
}

// endRun notes that the deltas end here.
func (s *splitter) endRun() {
	if s.run >= longRun {
		s.cut(len(s.marks) - s.run)
		s.cut(s.run)
	}
	s.run = 0
}

// cut makes a row of the next events.
func (s *splitter) cut(events int) {
	if events == 0 {
		return
	}
	r := row{key: s.key, part: s.rest, earliest: s.marks[0].at, last: s.marks[events-1].at}
	size := 0
	for _, m := range s.marks[:events] {
		size += m.size
		r.beyond = r.beyond || !m.delta
		r.earliest, r.latest = min(r.earliest, m.at), max(r.latest, m.at)
	}
	r.part.Names, s.rest.Names = s.rest.Names[:events], s.rest.Names[events:]
	r.part.Lines, s.rest.Lines = s.rest.Lines[:size], s.rest.Lines[size:]
	s.rest.First += uint64(events)
	s.marks = s.marks[events:]
	s.rows = append(s.rows, r)
}
