//go:build !chaos

package builtin

import "github.com/agentbus/agentbus/pkg/tool"

// extra returns the tools of test builds; none here.
func extra() []tool.Tool { return nil }
