package cluster

import (
	"context"
	"os"

	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/agentbus/agentbus/pkg/skew"
)

// Tag is the build tag of services that are to be tested: it adds the tools whose executions are counted, the marks of
// rare paths, and the switches that take safeguards away. Without it none of these exists.
const Tag = "chaos"

// Build compiles the services, and the NATS server that go.mod names, into dir. The wall clock of each of them follows
// [skew.Env], where a node's environment has it (see [Node.Skew]). A program that is in dir already is not compiled.
func Build(ctx context.Context, dir string) (testcluster.Programs, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // they run as other users too
		return nil, err
	}
	flags, err := skew.Flags(ctx, dir)
	if err != nil {
		return nil, err
	}
	// Without symbols for debuggers they are linked in half the time.
	flags = append([]string{"-tags", Tag, "-ldflags", "-s -w"}, flags...)
	return testcluster.Build(ctx, dir, flags, append(testcluster.Services(), testcluster.NATS)...)
}
