//go:build !chaos

package builtin

import "github.com/agentbus/agentbus/pkg/tool"

// extra is no tools: only programs for tests have more.
func extra() []tool.Tool { return nil }
