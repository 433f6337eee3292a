package upstream

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/sse"
)

// ErrNothingYet is the error of [Ahead.Next] when no value came in time.
var ErrNothingYet = errors.New("no value came in time")

// Ahead reads the values of a stream in a goroutine, so that a reader can wait for the next one for a limited time.
type Ahead struct {
	values  chan value
	stop    chan struct{}
	res     *http.Response
	running sync.WaitGroup
}

type value struct {
	event sse.Event
	err   error
}

// Ahead starts to read the stream. The caller calls Close.
func (s *Stream) Ahead() *Ahead {
	a := &Ahead{values: make(chan value), stop: make(chan struct{}), res: s.res}
	a.running.Go(func() {
		for {
			e, err := s.Next()
			e.Data = bytes.Clone(e.Data)
			select {
			case a.values <- value{e, err}:
			case <-a.stop:
				return
			}
			if err != nil {
				return
			}
		}
	})
	return a
}

// Next waits for the next value, for at most a time; 0 = without a limit. After another error than [ErrNothingYet] it must not be
// called again.
func (a *Ahead) Next(wait time.Duration) (sse.Event, error) {
	if wait == 0 {
		v := <-a.values
		return v.event, v.err
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case v := <-a.values:
		return v.event, v.err
	case <-timer.C:
		return sse.Event{}, ErrNothingYet
	}
}

// Close ends the connection and waits for the goroutine.
func (a *Ahead) Close() {
	close(a.stop)
	_ = a.res.Body.Close() // the answer was read to its end, or it no longer matters
	a.running.Wait()
}
