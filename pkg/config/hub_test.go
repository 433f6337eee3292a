package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
)

func TestTheHubsSectionIsRead(t *testing.T) {
	t.Parallel()
	got, err := config.Parse([]byte("hub:\n  plainHTTP: true\n  allow: [10.0.0.0/8, lab]\n  budget: {totalUsd: 10, agentUsd: 2.5, per: 24h}\n"), known)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Budget{TotalUSD: 10, AgentUSD: 2.5, Per: config.Duration(24 * time.Hour)}
	if h := got.Hub; !h.PlainHTTP || len(h.Allow) != 2 || h.Budget != want {
		t.Errorf("got %+v", h)
	}
	if with := (config.Config{Hub: config.Hub{PlainHTTP: true}}).With(config.Config{}); !with.Hub.PlainHTTP {
		t.Error("a file without the section takes it away")
	}
}

func TestMistakesInTheHubsSectionAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hub: {allow: [10.0.0.0/99]}":     "hub.allow[0]",
		"hub: {budget: {totalUsd: -1}}":   "hub.budget.totalUsd",
		"hub: {budget: {agentUsd: .nan}}": "hub.budget.agentUsd",
		"hub: {offlineAfter: -2m}":        "hub.offlineAfter",
	} {
		if _, err := config.Parse([]byte(text), known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a mistake at %s", text, err, want)
		}
	}
}
