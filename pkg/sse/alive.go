package sse

import "io"

// Alive returns src, and calls sign after every successful read: a stream with comments is alive, and a [Reader] does
// not return comments.
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
