//go:build !chaos

package bus

import "github.com/nats-io/nats.go/jetstream"

// weakness is nothing: see weaken.go for what it is in builds for tests.
type weakness struct{}

func newWeakness() weakness { return weakness{} }

func (weakness) broker(b broker) broker                                                  { return b }
func (weakness) streams(all []jetstream.StreamConfig, _ string) []jetstream.StreamConfig { return all }
func (weakness) earlyAck() bool                                                          { return false }
func (weakness) noGapFilling() bool                                                      { return false }
func (weakness) reached(string)                                                          {}
func (weakness) fenced(string, uint64, uint64)                                           {}
func (weakness) ending(string, uint64)                                                   {}
