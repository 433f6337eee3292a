package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/tool/mcp"
	"github.com/agentbus/agentbus/pkg/tool/mcp/mcptest"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestAServerThatReportsChangesAllTheTimeIsListedOnceASecond(t *testing.T) {
	t.Parallel()
	server := mcptest.New(func() {})
	var n atomic.Int64
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				server.AddTool(&sdk.Tool{Name: fmt.Sprint("new", n.Add(1)), InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
			}
			return next(ctx, method, r)
		}
	})
	site := httptest.NewServer(mcptest.Handler(server))
	t.Cleanup(func() {
		_ = site.Listener.Close() // first: a client could connect again
		site.CloseClientConnections()
		site.Close()
	})
	r := run(t, mcp.Options{Name: "site", URL: site.URL})
	<-r.found
	begun := time.Now()
	for range 3 {
		<-r.found
	}
	if took := time.Since(begun); took < 2*time.Second {
		t.Errorf("three lists took %v, want a second for each", took)
	}
}
