package upstream

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// ErrStalled is the error of reading an answer on which nothing came for too long.
var ErrStalled = errors.New("nothing came for too long")

const (
	// IdleTimeout is how long an answer may stay silent. Reasoning models think for minutes before their first word.
	IdleTimeout = 5 * time.Minute

	// Retries is the default number of retries before the first byte of an answer.
	Retries = 2

	// MaxRetryWait is how long a backend waits before it does: a longer wait is the client's to decide.
	MaxRetryWait = 5 * time.Second

	maxErrorBody = 64 << 10 // bytes; SDKs read the bodies of errors as a whole
	idlePerHost  = 64       // connections kept to a provider; the default of 2 would dial anew under load
)

// NewClient returns an HTTP client for long streams: no limit on their length, but none may be silent for longer than
// idleTimeout (0 = IdleTimeout), and bodies of errors are cut.
func NewClient(idleTimeout time.Duration) *http.Client {
	next := http.DefaultTransport
	if t, ok := next.(*http.Transport); ok {
		t = t.Clone()
		t.MaxIdleConnsPerHost = idlePerHost
		next = t
	}
	if idleTimeout <= 0 {
		idleTimeout = IdleTimeout
	}
	return &http.Client{Transport: transport{next: next, idleTimeout: idleTimeout}}
}

type transport struct {
	next        http.RoundTripper
	idleTimeout time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(t.idleTimeout, func() { cancel(ErrStalled) })
	cause := func() error { return context.Cause(ctx) }
	res, err := t.next.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		err = stalled(cause, err)
		cancel(nil)
		return nil, err
	}
	var from io.Reader = res.Body
	if res.StatusCode >= http.StatusBadRequest {
		from = io.LimitReader(res.Body, maxErrorBody)
	}
	res.Body = &body{cause: cause, cancel: cancel, from: from, closer: res.Body, timer: timer, idleTimeout: t.idleTimeout}
	return res, nil
}

// body is an answer that ends with ErrStalled when a read takes longer than idleTimeout.
type body struct {
	cause       func() error // why the exchange was cancelled
	cancel      context.CancelCauseFunc
	from        io.Reader
	closer      io.Closer
	timer       *time.Timer
	idleTimeout time.Duration
}

func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.idleTimeout)
	n, err := b.from.Read(p)
	b.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = stalled(b.cause, err)
	}
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.closer.Close()
}

// stalled distinguishes our timeout from a cancellation by the caller.
func stalled(cause func() error, err error) error {
	if errors.Is(cause(), ErrStalled) {
		return ErrStalled
	}
	return err
}
