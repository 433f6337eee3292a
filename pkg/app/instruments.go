//go:build !chaos

package app

import (
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/tool"
)

// instruments returns none: instruments_chaos.go has those of builds for tests of faults.
func instruments() (none bus.Instruments) { return none }

// instrumentTools returns none, for the same reason.
func instrumentTools() []tool.Tool { return nil }
