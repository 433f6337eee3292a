package protocol

import "context"

// Followers are the goroutines that send events on a WebSocket, each under a name. The zero value is ready to use. It is for
// the goroutine that serves the socket, which must call StopAll.
type Followers struct {
	byName map[string]follower
}

type follower struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the goroutine has ended
}

// Start runs follow in a goroutine until Stop cancels its context. It stops the follower that has the name.
func (f *Followers) Start(ctx context.Context, name string, follow func(context.Context)) {
	f.Stop(name)
	if f.byName == nil {
		f.byName = map[string]follower{}
	}
	own, cancel := context.WithCancel(ctx)
	started := follower{cancel, make(chan struct{})}
	f.byName[name] = started
	go func() { // ends with cancel
		defer close(started.done)
		follow(own)
	}()
}

// Stop cancels a follower, if it exists, and waits for its end.
func (f *Followers) Stop(name string) {
	one, ok := f.byName[name]
	if !ok {
		return
	}
	delete(f.byName, name)
	one.cancel()
	<-one.done
}

// StopAll stops all followers.
func (f *Followers) StopAll() {
	for name := range f.byName {
		f.Stop(name)
	}
}

// Count counts the followers that run, without the one that has the name.
func (f *Followers) Count(without string) int {
	n := 0
	for name, one := range f.byName {
		select {
		case <-one.done:
			f.Stop(name)
			continue
		default:
		}
		if name != without {
			n++
		}
	}
	return n
}
