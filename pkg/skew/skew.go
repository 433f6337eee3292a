// Package skew compiles programs whose wall clock can be set wrong, for fault tests. The Go compiler gets a changed
// copy of the standard library's time.Now (go build -overlay), so that the whole process is affected, including
// libraries: its timestamps, comparisons and signatures. Timers, timeouts and measured durations use the monotonic
// clock and are not affected, as on a machine whose clock was set wrong.
//
// Without [Env] in its environment, such a program behaves as usual.
package skew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Env is the environment variable with the error of a process's wall clock: fast (10m) or slow (-10m).
const Env = "AGENTBUS_CLOCK_SKEW"

// The change to time.Now: it must fit exactly once.
const (
	before = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	after  = before + "\tsec += skewSeconds\n"

	variable = `
var skewSeconds = func() int64 {
	text, _ := syscall.Getenv("` + Env + `")
	skew, err := ParseDuration(text)
	if text != "" && err != nil {
		panic("` + Env + ` is not a duration: " + text)
	}
	return int64(skew / Second)
}()
`
	imports     = "import (\n\t\"errors\"\n"
	moreImports = imports + "\t\"syscall\"\n"
)

// Flags writes what go build needs into dir, which must stay there until the build is done, and returns the flags.
func Flags(ctx context.Context, dir string) ([]string, error) {
	output, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find the standard library: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(output)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return nil, fmt.Errorf("read the standard library: %w", err)
	}
	changed, err := change(string(source))
	if err != nil {
		return nil, fmt.Errorf("change %s: %w", original, err)
	}
	replacement := filepath.Join(dir, "time.go.skewed")
	if err := os.WriteFile(replacement, []byte(changed), 0o600); err != nil {
		return nil, err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "overlay.json")
	return []string{"-overlay", file}, os.WriteFile(file, overlay, 0o600)
}

func change(source string) (string, error) {
	for _, text := range []string{before, imports} {
		if strings.Count(source, text) != 1 {
			return "", errors.New("this version of Go has another time.Now: adapt pkg/skew")
		}
	}
	source = strings.Replace(source, before, after, 1)
	return strings.Replace(source, imports, moreImports, 1) + variable, nil
}
