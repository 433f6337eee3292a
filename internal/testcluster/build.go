package testcluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// Programs are the paths of the programs of a cluster.
type Programs map[Kind]string

// packages are the main packages of kinds. Redis and PostgreSQL are programs of the machine.
func packages() map[Kind]string {
	const module = "github.com/agentbus/agentbus/"
	all := map[Kind]string{NATS: "github.com/nats-io/nats-server/v2", Dev: module + "cmd/agentbus"}
	for _, kind := range Services() {
		all[kind] = module + "services/" + string(kind) + "/cmd"
	}
	return all
}

// Build compiles the programs of kinds into dir, with flags of go build, and the NATS server that go.mod requires. A program
// that dir contains is not compiled again. It must be called in a folder of the module.
func Build(ctx context.Context, dir string, flags []string, kinds ...Kind) (Programs, error) {
	programs := Programs{}
	for _, kind := range kinds {
		path := filepath.Join(dir, string(kind))
		programs[kind] = path
		if _, err := os.Stat(path); err == nil {
			continue
		}
		main, ok := packages()[kind]
		if !ok {
			return nil, fmt.Errorf("build %s: it is not a program of this module", kind)
		}
		args := slices.Concat([]string{"build"}, flags, []string{"-o", path, main})
		out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput() //nolint:gosec // the packages are those above
		if err != nil {
			return nil, fmt.Errorf("build %s: %w: %s", main, err, out)
		}
	}
	return programs, nil
}
