//go:build !chaos

package app

import "github.com/agentbus/agentbus/pkg/bus"

// instruments returns none: instruments_chaos.go has those of builds for tests of faults.
func instruments() (none bus.Instruments) { return none }
