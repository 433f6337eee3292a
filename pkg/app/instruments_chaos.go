//go:build chaos

package app

import (
	"os"

	"github.com/agentbus/agentbus/internal/journal"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/weakbus"
	"github.com/agentbus/agentbus/pkg/tool"
)

// instruments returns those that the environment names.
func instruments() bus.Instruments { return weakbus.Instruments() }

// instrumentTools returns the tools whose executions are counted, in the file that AGENTBUS_JOURNAL names.
func instrumentTools() []tool.Tool { return journal.Tools(os.Getenv("AGENTBUS_JOURNAL")) }
