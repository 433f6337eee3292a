package sse

import (
	"io"
	"time"
)

// Reader reads a stream's events one by one. It is not safe for concurrent use.
type Reader struct {
	src    io.Reader
	parser Parser
	chunk  [4096]byte
	ready  []Event
	err    error
}

// NewReader returns a reader of src.
func NewReader(src io.Reader) *Reader { return &Reader{src: src} }

// Next waits for the next event. At the end of the stream it returns io.EOF; an event that was not complete by then is
// dropped.
func (r *Reader) Next() (Event, error) {
	for len(r.ready) == 0 {
		if r.err != nil {
			return Event{}, r.err
		}
		r.fill()
	}
	e := r.ready[0]
	r.ready = r.ready[1:]
	return e, nil
}

// Retry is the wait before a reconnect that the stream asked for last, and 0 when it asked for none.
func (r *Reader) Retry() time.Duration { return r.parser.Retry() }

func (r *Reader) fill() {
	n, err := r.src.Read(r.chunk[:])
	events, parseErr := r.parser.Feed(r.chunk[:n])
	r.ready = events
	r.err = err
	if parseErr != nil {
		r.err = parseErr
	}
}
