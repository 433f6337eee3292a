package sse

import "io"

// Alive is src, and calls sign after every read that brought something: comments show that a stream lives as events do,
// and a [Reader] does not tell of them.
func Alive(src io.Reader, sign func()) io.Reader { return alive{src, sign} }

type alive struct {
	io.Reader
	sign func()
}

// Read implements [io.Reader].
func (a alive) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if n > 0 {
		a.sign()
	}
	return n, err
}
