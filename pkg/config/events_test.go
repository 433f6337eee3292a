package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
)

func TestEventsHaveTheirSchemasHereOrInFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("feedback.json", `{"type":"object","required":["rating"]}`)
	write("broken.json", `{"type":`)
	here := "  metric: {schema: {type: object, required: [value]}}\n"
	tests := map[string]struct{ yaml, says string }{
		"a schema here":            {here, ""},
		"a schema in a file":       {"  feedback: {file: feedback.json}\n" + here, ""},
		"a file that is not there": {"  feedback: {file: nowhere.json}\n", "events.feedback.file: "},
		"a file that is not JSON":  {"  feedback: {file: broken.json}\n", "events.feedback.file: "},
		"neither":                  {"  feedback: {}\n", "needs a schema or a file"},
		"both":                     {"  feedback: {file: feedback.json, schema: {type: object}}\n", "needs a schema or a file"},
		"a name of ours":           {"  done: {schema: {type: object}}\n", "an event of the protocol has this name"},
	}
	for name, test := range tests {
		c, err := config.Load(write("config.yaml", "events:\n"+test.yaml), config.Config{}, config.Known{})
		if test.says != "" {
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%s: got %v, want %q", name, err, test.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for kind, e := range c.Events {
			if e.Schema["type"] != "object" || e.Schema["required"] == nil {
				t.Errorf("%s: %s has the schema %v", name, kind, e.Schema)
			}
		}
	}
}
