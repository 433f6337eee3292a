package bus

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// errDown says that the connection to the broker is down, or was lost while an answer was awaited.
var errDown = errors.New("the connection to the broker is down")

// link reports when the connection is lost and when it is back. An answer that was awaited when the connection was lost
// may never come, and what was published until the subscriptions were restored is missed: a waiting reader must look into
// storage. The zero value is a connection that is never lost. It is safe for concurrent use.
type link struct {
	mu   sync.Mutex
	life context.Context //nolint:containedctx // ends when the connection is lost
	end  context.CancelCauseFunc
	back chan struct{} // closed when the connection is back, and replaced
}

// lost ends what waits for an answer.
func (l *link) lost() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end(errDown)
	}
	l.life, l.end = nil, nil
}

// restored wakes what waits for the connection.
func (l *link) restored() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back != nil {
		close(l.back)
	}
	l.back = nil
}

// next returns a channel that is closed when the connection is back after its next loss.
func (l *link) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back == nil {
		l.back = make(chan struct{})
	}
	return l.back
}

// within returns ctx bounded by wait and by the life of the connection; its cause is then errDown.
func (l *link) within(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, expire := context.WithTimeout(ctx, wait)
	ctx, lose := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.connected(), func() { lose(errDown) })
	return ctx, func() {
		stop()
		lose(nil)
		expire()
	}
}

func (l *link) connected() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life == nil {
		l.life, l.end = context.WithCancelCause(context.Background())
	}
	return l.life
}

// lostDuring returns errDown in place of err where the connection was lost while ctx, which is one of within, was in use.
func lostDuring(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errDown) {
		return errDown
	}
	return err
}

const (
	// A lost last message cannot be noticed by a gap, so an idle reader looks into storage: soon at first, then less often.
	firstLook  = time.Second
	rarestLook = 15 * time.Second
	// revivedLook is how long the look after a reconnect takes at most: not every reader of a process looks at the same time.
	revivedLook = 500 * time.Millisecond
)

// looks says when an idle reader looks into storage. It is for one goroutine.
type looks struct {
	link  *link
	back  <-chan struct{} // closed when the connection was lost and is back
	pause time.Duration   // between looks while nothing comes
	at    time.Time       // the next one
}

func newLooks(l *link) looks {
	k := looks{link: l, back: l.next()}
	k.soon()
	return k
}

// soon makes the next look the first of a row: something came, or storage could not be read.
func (k *looks) soon() {
	k.pause = firstLook
	k.at = time.Now().Add(firstLook)
}

// revived makes the next look an early one: the connection is back.
func (k *looks) revived() {
	k.back = k.link.next()
	k.pause = firstLook / 2                    // doubled by the look: a cluster may restore subscriptions later than the connection
	k.at = time.Now().Add(rand.N(revivedLook)) //nolint:gosec // no secret
}

// due reports whether it is time to look; the next look is then later.
func (k *looks) due() bool {
	select {
	case <-k.back:
		k.revived()
	default:
	}
	now := time.Now()
	if now.Before(k.at) {
		return false
	}
	k.pause = min(2*k.pause, rarestLook)
	k.at = now.Add(k.pause)
	return true
}
