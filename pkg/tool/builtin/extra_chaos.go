//go:build chaos

package builtin

import (
	"os"

	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/journal"
)

// extra is the tools whose executions are counted: see cmd/chaos.
func extra() []tool.Tool { return journal.Tools(os.Getenv("AGENTBUS_JOURNAL")) }
