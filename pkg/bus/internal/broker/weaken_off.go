//go:build !chaos

package broker

import "github.com/nats-io/nats.go/jetstream"

// Weakness does nothing: weaken.go has the one of builds for tests.
type Weakness struct{}

func NewWeakness() Weakness { return Weakness{} }

func (Weakness) Broker(b Broker) Broker                                                  { return b }
func (Weakness) Streams(all []jetstream.StreamConfig, _ string) []jetstream.StreamConfig { return all }
func (Weakness) EarlyAck() bool                                                          { return false }
func (Weakness) NoGapFilling() bool                                                      { return false }
func (Weakness) Reached(string)                                                          {}
func (Weakness) Fenced(string, uint64, uint64)                                           {}
func (Weakness) Ending(string, uint64)                                                   {}
