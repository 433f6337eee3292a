package command

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"
)

// The example program shows a run as Tarko's documentation does.
func TestTheTarkoExampleShowsARun(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "tarko-cli")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../../docs/examples/tarko-cli").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tests := map[string]struct{ query, out, side string }{
		"words and a tool that works": {
			"/say Once upon\n/tool calculator {\"expression\":\"6*7\"}\n/say a time",
			"User: /say Once upon\n/tool calculator {\"expression\":\"6*7\"}\n/say a time\n" +
				"Once upon\n🔧 Using calculator...\n✅ Tool completed\na time\n", "",
		},
		"a tool that fails": {
			"/tool calculator {\"expression\":\"6*\"}\n/say so be it",
			"User: /tool calculator {\"expression\":\"6*\"}\n/say so be it\n" +
				"\n🔧 Using calculator...\n❌ Tool failed: cannot work out \"6*\": it ends where a number, a function or ( is expected\nso be it\n", "",
		},
		"a run that fails": {
			"/say so far\n/fail agent_error", "User: /say so far\n/fail agent_error\nso far\n",
			"Error: line 2 of the script asked for this failure\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, side bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program, "-url", shared().URL, test.query)
			cmd.Stdout, cmd.Stderr = &out, &side
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v: %s", err, &side)
			}
			if out.String() != test.out || side.String() != test.side {
				t.Errorf("got %q and %q, want %q and %q", &out, &side, test.out, test.side)
			}
		})
	}
}
