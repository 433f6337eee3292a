//go:build chaos

package app

import (
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/weakbus"
)

// instruments returns those that the environment names.
func instruments() bus.Instruments { return weakbus.Instruments() }
