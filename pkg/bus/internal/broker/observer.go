package broker

import "github.com/nats-io/nats.go/jetstream"

// Instruments are what tests of faults attach to a connection. Production has none.
type Instruments struct {
	Broker   func(Broker) Broker                                     // decorates the broker; nil = does not
	Streams  func([]jetstream.StreamConfig) []jetstream.StreamConfig // changes the streams that are provisioned and verified; nil = does not
	Observer Observer                                                // nil = none
}

// Observer is informed of what cannot be seen in the streams. Its methods are called concurrently.
type Observer interface {
	// Reached is called when a rare path is taken: read-back, gap, tail.
	Reached(path string)
	// Fenced is called when the writer of an epoch finds that it is fenced by the message at sequence.
	Fenced(subject string, sequence, epoch uint64)
	// Ending is called when the writer of an epoch receives the terminal event.
	Ending(subject string, epoch uint64)
	// Delivered is called with a message of a queue before its handler.
	Delivered(msg jetstream.Msg)
	// Gap is called when a follower misses live messages. With skip, it does not read them from storage.
	Gap() (skip bool)
}

// Unobserved is an [Observer] that does nothing.
type Unobserved struct{}

// Reached does nothing.
func (Unobserved) Reached(string) {}

// Fenced does nothing.
func (Unobserved) Fenced(string, uint64, uint64) {}

// Ending does nothing.
func (Unobserved) Ending(string, uint64) {}

// Delivered does nothing.
func (Unobserved) Delivered(jetstream.Msg) {}

// Gap does nothing.
func (Unobserved) Gap() (skip bool) { return false }
