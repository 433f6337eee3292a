package skew_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/skew"
)

const program = `package main

import (
	"fmt"
	"time"
)

func main() {
	begun := time.Now()
	time.Sleep(20 * time.Millisecond)
	if took := time.Since(begun); took < 20*time.Millisecond || took > time.Minute {
		panic(took)
	}
	fmt.Print(time.Now().UTC().Format(time.RFC3339))
}
`

func TestProgramHasAnotherTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "clock")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	flags, err := skew.Flags(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	args := append(append([]string{"build"}, flags...), "-o", binary, source)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for text, want := range map[string]time.Duration{"": 0, "10m": 10 * time.Minute, "-10m": -10 * time.Minute} {
		cmd := exec.CommandContext(t.Context(), binary)
		cmd.Env = append(os.Environ(), skew.Env+"="+text)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		at, err := time.Parse(time.RFC3339, string(out))
		if err != nil {
			t.Fatal(err)
		}
		if off := time.Until(at) - want; off.Abs() > time.Minute {
			t.Errorf("%q: its clock says %s, which is %s off", text, at, off)
		}
	}
}
