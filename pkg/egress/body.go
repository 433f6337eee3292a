package egress

import (
	"errors"
	"io"
)

// ErrBodyTooLarge says that a response went over Options.MaxBody.
var ErrBodyTooLarge = errors.New("the response is larger than allowed")

// cappedBody fails once more than left bytes have come. It counts after decompression, so a small bomb stays small.
type cappedBody struct {
	body io.ReadCloser
	left int64
}

func (c *cappedBody) Read(p []byte) (int, error) {
	if c.left < 0 {
		return 0, ErrBodyTooLarge
	}
	if int64(len(p)) > c.left+1 {
		p = p[:c.left+1] // one more than allowed, to distinguish a full body from one that is too long
	}
	n, err := c.body.Read(p)
	if int64(n) <= c.left {
		c.left -= int64(n)
		return n, err
	}
	n, c.left = int(c.left), -1
	return n, ErrBodyTooLarge
}

func (c *cappedBody) Close() error { return c.body.Close() }
