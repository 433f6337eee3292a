package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/agentbus/agentbus/pkg/skew"
)

// Programs are the paths of what a cluster consists of, by name.
type Programs map[string]string

// Tag is the build tag of services that are to be tested: it adds the tools whose executions are counted, the marks of
// rare paths, and the switches that take safeguards away. Without it none of these exists.
const Tag = "chaos"

// Build compiles the services, and the NATS server that go.mod names, into dir. The wall clock of each of them follows
// [skew.Env], where a node's environment has it (see [Node.Skew]). A program that is in dir already is not compiled.
func Build(ctx context.Context, dir string) (Programs, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // they run as other users too
		return nil, err
	}
	flags, err := skew.Flags(ctx, dir)
	if err != nil {
		return nil, err
	}
	programs := Programs{}
	packages := map[string]string{string(NATS): "github.com/nats-io/nats-server/v2"}
	for _, kind := range Services() {
		packages[string(kind)] = "github.com/agentbus/agentbus/services/" + string(kind) + "/cmd"
	}
	for name, pkg := range packages {
		programs[name] = filepath.Join(dir, name)
		if _, err := os.Stat(programs[name]); err == nil {
			continue
		}
		// Without symbols for debuggers they are linked in half the time.
		args := slices.Concat([]string{"build", "-tags", Tag, "-ldflags", "-s -w"}, flags, []string{"-o", programs[name], pkg})
		out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput() //nolint:gosec // the packages are those above
		if err != nil {
			return nil, fmt.Errorf("build %s: %w: %s", pkg, err, out)
		}
	}
	return programs, nil
}
