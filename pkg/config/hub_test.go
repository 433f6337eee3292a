package config_test

import (
	"reflect"
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
	local := config.Hub{PlainHTTP: true, Allow: []string{"127.0.0.0/8"}, OfflineAfter: config.Duration(time.Minute)}
	tests := []struct {
		name       string
		file, want config.Hub
	}{
		{"a file without the section", config.Hub{}, local},
		{"a file with a budget alone", config.Hub{Budget: config.Budget{AgentUSD: 1}},
			config.Hub{PlainHTTP: true, Allow: local.Allow, OfflineAfter: local.OfflineAfter, Budget: config.Budget{AgentUSD: 1}}},
		{"a file with addresses and another time", config.Hub{Allow: []string{"10.8.0.0/16"}, OfflineAfter: config.Duration(time.Second)},
			config.Hub{PlainHTTP: true, Allow: []string{"127.0.0.0/8", "10.8.0.0/16"}, OfflineAfter: config.Duration(time.Second)}},
	}
	for _, tt := range tests {
		if got := (config.Config{Hub: local}).With(config.Config{Hub: tt.file}).Hub; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestMistakesInTheHubsSectionAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"hub: {allow: [10.0.0.0/99]}":     "hub.allow[0]",
		"hub: {budget: {totalUsd: -1}}":   "hub.budget.totalUsd",
		"hub: {budget: {agentUsd: .nan}}": "hub.budget.agentUsd",
		"hub: {offlineAfter: -2m}":        "hub.offlineAfter",
		"hub: {keep: -2m}":                "hub.keep",
	} {
		if _, err := config.Parse([]byte(text), known); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a mistake at %s", text, err, want)
		}
	}
}
