package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrDown says that the connection to the broker is down, or was lost before a response arrived.
var ErrDown = errors.New("the connection to the broker is down")

// Link reports when the connection is lost and when it is back. A response that is awaited when the connection is lost may
// never arrive, and messages published until the subscriptions are restored are missed: a waiting reader must read storage.
// The zero value is a connection that is never lost. It is safe for concurrent use.
type Link struct {
	mu   sync.Mutex
	life context.Context //nolint:containedctx // ends when the connection is lost
	end  context.CancelCauseFunc
	back chan struct{} // closed when the connection is back, and replaced
}

// Lost ends what waits for an answer.
func (l *Link) Lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end(ErrDown)
	}
	l.life, l.end = nil, nil
}

// Restored wakes what waits for the connection.
func (l *Link) Restored() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back != nil {
		close(l.back)
	}
	l.back = nil
}

// next returns a channel that is closed when the connection is back after its next loss.
func (l *Link) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back == nil {
		l.back = make(chan struct{})
	}
	return l.back
}

// Within returns ctx bounded by wait and by the life of the connection; its cause is then ErrDown.
func (l *Link) Within(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, expire := context.WithTimeout(ctx, wait)
	ctx, lose := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.connected(), func() { lose(ErrDown) })
	return ctx, func() {
		stop()
		lose(nil)
		expire()
	}
}

func (l *Link) connected() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life == nil {
		l.life, l.end = context.WithCancelCause(context.Background())
	}
	return l.life
}

// lostDuring returns ErrDown instead of err if the connection was lost while ctx, which is from Within, was in use.
func lostDuring(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrDown) {
		return ErrDown
	}
	return err
}

const (
	// The loss of the last message leaves no gap, so an idle reader checks storage: soon at first, then less often.
	FirstCheck   = time.Second
	LongestCheck = 15 * time.Second
	// reconnectCheck bounds the random delay of the check after a reconnect, which spreads the checks of all readers.
	reconnectCheck = 500 * time.Millisecond
)

// Checks schedules the reads of storage of an idle reader. It is for one goroutine.
type Checks struct {
	link  *Link
	Back  <-chan struct{} // closed when the connection was lost and is back
	Pause time.Duration   // between checks while nothing comes
	At    time.Time       // the next one
}

// NewChecks returns the schedule of a reader on a connection.
func NewChecks(l *Link) Checks {
	k := Checks{link: l, Back: l.next()}
	k.Soon()
	return k
}

// Soon restarts the schedule: a message came, or storage could not be read.
func (k *Checks) Soon() {
	k.Pause = FirstCheck
	k.At = time.Now().Add(FirstCheck)
}

// reconnected schedules an early check: the connection is back.
func (k *Checks) reconnected() {
	k.Back = k.link.next()
	k.Pause = FirstCheck / 2                      // doubled by the check: a cluster may restore subscriptions after the connection
	k.At = time.Now().Add(rand.N(reconnectCheck)) //nolint:gosec // no secret
}

// Due reports whether storage must be read now, and schedules the next check.
func (k *Checks) Due() bool {
	select {
	case <-k.Back:
		k.reconnected()
	default:
	}
	now := time.Now()
	if now.Before(k.At) {
		return false
	}
	k.Pause = min(2*k.Pause, LongestCheck)
	k.At = now.Add(k.Pause)
	return true
}
