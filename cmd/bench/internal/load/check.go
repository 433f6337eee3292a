package load

import (
	"bytes"
	"fmt"
	"strconv"
)

// check verifies the guarantees for readers of a stream: each event once, in order and without gaps, and one terminal
// event at the end.
//
// Ids number all events of the log, but a client receives only those that it selected. Without extended events, ids may
// be skipped in two positions: before the first event (the claim and the input) and before the terminal event (the
// usage).
type check struct {
	events   int
	deltas   int
	next     uint64
	terminal bool
}

var stageDelta = []byte(`"stage":"delta"`)

func (c *check) see(e seen) error {
	n, err := place(e.id)
	if err != nil {
		return err
	}
	if c.terminal {
		return fmt.Errorf("event %d comes after the terminal one", n)
	}
	c.terminal = isTerminal(e.name)
	switch {
	case c.events > 0 && n < c.next:
		return fmt.Errorf("event %d comes again or late, where %d is next", n, c.next)
	case c.events > 0 && n > c.next && !c.terminal:
		return fmt.Errorf("event %d comes where %d is next", n, c.next)
	}
	c.next = n + 1
	c.events++
	if bytes.Contains(e.data, stageDelta) {
		c.deltas++
	}
	return nil
}

// end is called at the end of the stream; deltas is the expected number of deltas, -1 = unknown.
func (c *check) end(deltas int) error {
	if !c.terminal {
		return fmt.Errorf("the stream ended after %d events without a terminal one", c.events)
	}
	if deltas >= 0 && c.deltas != deltas {
		return fmt.Errorf("got %d deltas, want %d", c.deltas, deltas)
	}
	return nil
}

// place returns the number after the last dash of an id.
func place(id []byte) (uint64, error) {
	digits := id[bytes.LastIndexByte(id, '-')+1:]
	n, err := strconv.ParseUint(string(digits), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("event id %q has no number", id)
	}
	return n, nil
}

func isTerminal(name []byte) bool {
	switch string(name) {
	case "done", "error", "aborted":
		return true
	}
	return false
}
