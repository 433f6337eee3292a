package load

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// seen is one server-sent event, as far as the benchmark needs it. The slices are valid until the next one is read.
type seen struct {
	id   []byte
	name []byte
	data []byte // truncated if the line is longer than the reader's buffer
	wire int    // bytes on the wire, the blank line included
}

// reader parses a stream without a copy or an allocation for each event, because it shares the processor with the
// services that it measures. It supports only the form that the servers here write: one line each for id, event and
// data, ended by "\n".
type reader struct {
	in   *bufio.Reader
	id   []byte
	name []byte
	data []byte
}

// longest is how many bytes are kept of a line that does not fit into the buffer: enough for all members before the
// text.
const longest = 1 << 10

func newReader(in io.Reader, buffer int) *reader {
	return &reader{in: bufio.NewReaderSize(in, max(buffer, longest))}
}

// next returns the next event, or io.EOF at a clean end. It skips comments.
func (r *reader) next() (seen, error) {
	r.id, r.name, r.data = r.id[:0], r.name[:0], r.data[:0]
	wire := 0
	for {
		line, size, err := r.line()
		wire += size
		if err != nil {
			if errors.Is(err, io.EOF) && wire > 0 {
				err = io.ErrUnexpectedEOF
			}
			return seen{}, err
		}
		switch {
		case len(line) == 0 && len(r.name) > 0:
			return seen{id: r.id, name: r.name, data: r.data, wire: wire}, nil
		case len(line) == 0:
			wire = 0 // the end of a comment
		case bytes.HasPrefix(line, []byte("id: ")):
			r.id = append(r.id, line[4:]...)
		case bytes.HasPrefix(line, []byte("event: ")):
			r.name = append(r.name, line[7:]...)
		case bytes.HasPrefix(line, []byte("data: ")):
			r.data = append(r.data, line[6:]...)
		}
	}
}

// line returns the next line without its end, and its length with the end.
func (r *reader) line() (head []byte, size int, err error) {
	head, err = r.in.ReadSlice('\n')
	size = len(head)
	if err == nil {
		return head[:len(head)-1], size, nil
	}
	if !errors.Is(err, bufio.ErrBufferFull) {
		return nil, size, err
	}
	head = bytes.Clone(head[:longest])
	for errors.Is(err, bufio.ErrBufferFull) {
		var more []byte
		more, err = r.in.ReadSlice('\n')
		size += len(more)
	}
	return head, size, err
}
