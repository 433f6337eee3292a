package config_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
)

func TestReceiversOfWebhooks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, webhooks, says string
	}{
		{"all settings", "{receivers: {ops: {url: https://a.example/x, signingKeyEnv: KEY, events: [request.done, action.opened], agents: [a], tenants: [t]}}}", ""},
		{"plain http that is allowed", "{plainHTTP: true, allow: [10.0.0.0/8], receivers: {ops: {url: http://a.example, signingKeyEnv: KEY}}}", ""},
		{"plain http", "{receivers: {ops: {url: http://a.example, signingKeyEnv: KEY}}}", "gateway.webhooks.receivers.ops.url: \"http://a.example\" is not the address"},
		{"no address", "{receivers: {ops: {signingKeyEnv: KEY}}}", "gateway.webhooks.receivers.ops.url"},
		{"a password in the address", "{receivers: {ops: {url: https://u:p@a.example, signingKeyEnv: KEY}}}", "gateway.webhooks.receivers.ops.url"},
		{"no key", "{receivers: {ops: {url: https://a.example}}}", "gateway.webhooks.receivers.ops.signingKeyEnv"},
		{"a key in place of its name", "{receivers: {ops: {url: https://a.example, signingKeyEnv: whsec_abc}}}", "gateway.webhooks.receivers.ops.signingKeyEnv"},
		{"an unknown event", "{receivers: {ops: {url: https://a.example, signingKeyEnv: KEY, events: [done]}}}", "gateway.webhooks.receivers.ops.events[0]: \"done\" is not one of"},
		{"a name with a dot", "{receivers: {a.b: {url: https://a.example, signingKeyEnv: KEY}}}", "the name of a receiver must match"},
		{"a network with a wrong prefix", "{allow: [10.0.0.0/99]}", "gateway.webhooks.allow[0]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse([]byte("gateway: {webhooks: "+tt.webhooks+"}\n"), config.Known{})
			if tt.says == "" && err != nil {
				t.Errorf("it is refused: %v", err)
			}
			if tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}
