//go:build chaos

package app_test

import (
	"testing"

	"github.com/agentbus/agentbus/internal/journal"
	"github.com/agentbus/agentbus/pkg/app"
	"github.com/agentbus/agentbus/pkg/tool"
)

func TestABuildForTestsOfFaultsHasTheJournal(t *testing.T) {
	t.Parallel()
	specs := new(app.Platform).Specs(map[string]tool.Spec{"echo": {Name: "echo"}})
	for _, name := range []string{"echo", journal.None, journal.Idempotent, journal.Unsafe, journal.Approved} {
		if specs[name].Name != name {
			t.Errorf("got %v, want %s", specs, name)
		}
	}
}
