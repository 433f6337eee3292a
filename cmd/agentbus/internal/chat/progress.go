package chat

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/event"
)

// progress shows that a request runs while it has no events.
type progress struct {
	mu     sync.Mutex // for all members
	screen *screen.Screen
	last   time.Time // of the newest event, or of the start
}

// quiet is the time without an event after which progress is shown.
const quiet = time.Second

func newProgress(s *screen.Screen) *progress { return &progress{screen: s, last: time.Now()} }

// show shows an event.
func (p *progress) show(e event.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	return p.screen.Show(e)
}

// run shows the time since the newest event, until ctx is done.
func (p *progress) run(ctx context.Context) {
	tick := time.NewTicker(quiet / 4)
	defer tick.Stop()
	defer p.update("")
	for {
		select {
		case <-tick.C:
			p.mu.Lock()
			waited := time.Since(p.last)
			p.mu.Unlock()
			if waited >= quiet {
				p.update(fmt.Sprintf("… %d s, Ctrl-C aborts", int(waited.Seconds())))
			}
		case <-ctx.Done():
			return
		}
	}
}

func (p *progress) update(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.screen.Wait(text) // the next event reports a terminal that is gone
}
