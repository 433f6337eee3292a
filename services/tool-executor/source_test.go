package toolexecutor_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/mcp/mcptest"
	toolexecutor "github.com/agentbus/agentbus/services/tool-executor"
)

// site is an MCP server that wants a password.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	handler := mcptest.Handler(mcptest.New(func() {}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer open sesame" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = server.Listener.Close() // first: a client could connect again
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

func sesame(name string) (string, error) {
	if name != "PASSWORD" {
		return "", errors.New("there is no secret " + name)
	}
	return "open sesame", nil
}

func connected(server config.MCPServer) config.Config {
	return config.Config{MCP: map[string]config.MCPServer{"site": server}}
}

func TestCallsOfMCPToolsAndTheirAnnouncement(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	cfg := connected(config.MCPServer{
		URL: site(t).URL, Headers: map[string]string{"Authorization": "Bearer ${PASSWORD}"}, Approval: tool.ApprovalNever,
	})
	cfg.Tools = map[string]config.Tool{"site__picture": {Approval: tool.ApprovalAlways}}
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: cfg, Secret: sesame})
	tests := []struct {
		name, tool, args string
		status           event.ToolStatus
		content          string
	}{
		{"a call", "site__add", `{"a":1,"b":2}`, event.ToolSuccess, "3"},
		{"an error of the tool's own", "site__fail", `{}`, event.ToolFailed, "the disk is full"},
		{"arguments that do not fit", "site__add", `{"a":1}`, event.ToolFailed, `"b": integer`},
		{"a tool that there is not", "site__subtract", `{}`, event.ToolFailed, "has no tool"},
		{"a tool that the configuration has people asked for", "site__picture", `{}`, event.ToolDenied, "approval"},
	}
	for _, tt := range tests {
		c := newCall(t, tt.tool, tt.args)
		send(t, b, c)
		if got := await(t, b, c); got.Status != tt.status || !strings.Contains(got.Content, tt.content) {
			t.Errorf("%s: got %s, %q, want %s, %q", tt.name, got.Status, got.Content, tt.status, tt.content)
		}
	}
	if names := announced(t, b, "site"); !strings.Contains(names, " site__add ") {
		t.Errorf("runners get %q", names)
	}
}

// announced lists the tools of a source that runners know of, each between spaces.
func announced(t *testing.T, b *bus.Bus, source string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	names := " "
	tell := sync.OnceFunc(cancel)
	err := b.WatchToolsets(ctx, func(s bus.Toolset) {
		if s.Source != source {
			return
		}
		for _, spec := range s.Tools {
			names += spec.Name + " "
		}
		tell()
	}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestACallOfAServerThatIsAwayDidNotRun(t *testing.T) {
	t.Parallel()
	b := bustest.New(t)
	start(t, toolexecutor.Deps{Bus: toolexecutor.BusOf(b), Config: connected(config.MCPServer{URL: "http://127.0.0.1:1/mcp"})})
	fresh, begun := newCall(t, "site__add", `{}`), newCall(t, "site__add", `{}`)
	_, _, err := b.PutToolStarted(t.Context(), logOf(begun), record.ToolStarted{ToolCallID: begun.ToolCallID, Executor: "another"})
	if err != nil {
		t.Fatal(err)
	}
	send(t, b, fresh)
	send(t, b, begun)
	if got := await(t, b, fresh); got.Status != event.ToolFailed || !strings.Contains(got.Content, "did not run; try again later") {
		t.Errorf("got %s, %q", got.Status, got.Content)
	}
	if got := await(t, b, begun); got.Status != event.ToolUnknown {
		t.Errorf("of a call that another executor had begun: got %s, %q, want unknown", got.Status, got.Content)
	}
}

func TestSourcesThatCannotBeMade(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		server config.MCPServer
		want   string
	}{
		{"a secret that there is not", config.MCPServer{URL: "http://h/", Headers: map[string]string{"A": "${NOPE}"}}, "mcp.site.headers.A: there is no secret NOPE"},
		{"one of the environment", config.MCPServer{Command: "x", Env: map[string]string{"TOKEN": "${NOPE}"}}, "mcp.site.env.TOKEN: there is no secret NOPE"},
		{"an invalid address", config.MCPServer{URL: "http://h/", Allow: []string{"a b"}}, "mcp.site.allow"},
		{"an invalid URL", config.MCPServer{URL: "ftp://h/"}, "is not the URL"},
	}
	for _, tt := range tests {
		_, err := toolexecutor.New(toolexecutor.Deps{Bus: toolexecutor.BusOf(bustest.New(t)), Config: connected(tt.server), Secret: sesame})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
