package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAModuleOfAnotherAddsABackendAndATool builds docs/examples/extension, which is a module of its own, and uses its backend
// and its tool in `dev`.
func TestAModuleOfAnotherAddsABackendAndATool(t *testing.T) {
	t.Parallel()
	dir, example := t.TempDir(), filepath.Join(root, "docs", "examples", "extension")
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{
		"main.go": filepath.Join(example, "main.go"), "go.mod": filepath.Join(example, "go.mod"),
		"agentbus.yaml": filepath.Join(example, "agentbus.yaml"), "go.sum": filepath.Join(root, "go.sum"),
	} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.Replace(string(text), "=> ../../..", "=> "+absolute, 1))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shell(t, dir, "", "", "go build -mod=mod -o agentbus .") // which adds the indirect requirements to go.mod

	url := serve(t, filepath.Join(dir, "agentbus.yaml"), dir)
	const request = `curl -fsS $AGENTBUS_URL/v1/agents/%s/stream -H 'Content-Type: application/json' -d '{"messages":[{"role":"user","content":"%s"}]}'`
	wantTexts(t, shell(t, dir, url, "", fmt.Sprintf(request, "host", "hi")), "hello from my module", "event: done")
	wantTexts(t, shell(t, dir, url, "", fmt.Sprintf(request, "parrot", `/tool shout {\"text\":\"abc\"}`)), "ABC", "event: done")
}
