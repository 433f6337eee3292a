package api

import (
	"fmt"
	"runtime/debug"
)

// aside runs f on a stack of its own and waits for it. A goroutine keeps the room that its deepest call needed, and a
// stream lives long: what comes before it must not leave it a large stack. A panic in f is the caller's.
func aside(f func()) {
	type failure struct {
		value any
		stack []byte
	}
	ended := make(chan *failure, 1)
	go func() {
		defer func() {
			if value := recover(); value != nil {
				ended <- &failure{value, debug.Stack()}
				return
			}
			ended <- nil
		}()
		f()
	}()
	if failed := <-ended; failed != nil {
		panic(fmt.Sprintf("%v\n%s", failed.value, failed.stack))
	}
}
