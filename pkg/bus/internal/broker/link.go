package broker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrDown says that the connection to the broker is down, or was lost while an answer was awaited.
var ErrDown = errors.New("the connection to the broker is down")

// Link reports when the connection is lost and when it is back. An answer that was awaited when the connection was lost
// may never come, and what was published until the subscriptions were restored is missed: a waiting reader must look into
// storage. The zero value is a connection that is never lost. It is safe for concurrent use.
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

// Within returns ctx bounded by wait and by the life of the connection; its cause is then errDown.
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

// lostDuring returns errDown in place of err where the connection was lost while ctx, which is one of within, was in use.
func lostDuring(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), ErrDown) {
		return ErrDown
	}
	return err
}

const (
	// A lost last message cannot be noticed by a gap, so an idle reader looks into storage: soon at first, then less often.
	FirstLook  = time.Second
	RarestLook = 15 * time.Second
	// revivedLook is how long the look after a reconnect takes at most: not every reader of a process looks at the same time.
	revivedLook = 500 * time.Millisecond
)

// Looks says when an idle reader looks into storage. It is for one goroutine.
type Looks struct {
	link  *Link
	Back  <-chan struct{} // closed when the connection was lost and is back
	Pause time.Duration   // between looks while nothing comes
	At    time.Time       // the next one
}

func NewLooks(l *Link) Looks {
	k := Looks{link: l, Back: l.next()}
	k.Soon()
	return k
}

// Soon makes the next look the first of a row: something came, or storage could not be read.
func (k *Looks) Soon() {
	k.Pause = FirstLook
	k.At = time.Now().Add(FirstLook)
}

// revived makes the next look an early one: the connection is back.
func (k *Looks) revived() {
	k.Back = k.link.next()
	k.Pause = FirstLook / 2                    // doubled by the look: a cluster may restore subscriptions later than the connection
	k.At = time.Now().Add(rand.N(revivedLook)) //nolint:gosec // no secret
}

// Due reports whether it is time to look; the next look is then later.
func (k *Looks) Due() bool {
	select {
	case <-k.Back:
		k.revived()
	default:
	}
	now := time.Now()
	if now.Before(k.At) {
		return false
	}
	k.Pause = min(2*k.Pause, RarestLook)
	k.At = now.Add(k.Pause)
	return true
}
