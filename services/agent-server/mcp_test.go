package agentserver_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/tool/mcp/mcptest"
)

func TestAnAgentUsesTheToolsOfMCPServers(t *testing.T) {
	t.Parallel()
	site := httptest.NewServer(mcptest.Handler(mcptest.Old(mcptest.New(func() {}))))
	t.Cleanup(func() {
		_ = site.Listener.Close() // first: a client could connect again
		site.CloseClientConnections()
		site.Close()
	})
	s := open(t, setup{config: config.Config{
		MCP:         map[string]config.MCPServer{"site": {URL: site.URL, Elicitation: true, Approval: "never"}},
		Agents:      map[string]config.Agent{"tools": {Backend: "scripted", Tools: []string{"site__*"}}},
		AgentServer: config.AgentServer{Agent: "tools"},
	}})
	tests := []struct{ name, prompt, want string }{
		{"a tool", "/tool site__add {\"a\":40,\"b\":2}", "2 bytes"},
		{"a question, which is declined", "/tool site__book {}", "13 bytes"}, // decline <nil>,
	}
	for _, tt := range tests {
		events := s.follow(s.say(tt.prompt+"\n/say done").TaskID, 0)
		if text := fmt.Sprintf("%v", events); !strings.Contains(text, tt.want) {
			t.Errorf("%s: got %s, want %q", tt.name, text, tt.want)
		}
	}
}
