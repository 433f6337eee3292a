//go:build !chaos

package app_test

import (
	"testing"

	"github.com/agentbus/agentbus/pkg/app"
)

func TestAnOrdinaryBuildHasNoInstruments(t *testing.T) {
	t.Parallel()
	if tools := new(app.Platform).Tools(); len(tools) > 0 {
		t.Errorf("got %d tools, want none", len(tools))
	}
}
