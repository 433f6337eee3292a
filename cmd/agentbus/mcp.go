package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/agentbus/agentbus/pkg/service"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type mcpCommand struct{}

// Run serves MCP over standard input and output: the tools that the hub has at /mcp, for programs that start their MCP
// servers themselves.
func (mcpCommand) Run(ctx context.Context, g globals, c *console) error {
	ctx, stop := service.Signals(ctx)
	defer stop()
	hub, err := connectHub(ctx, g)
	if err != nil {
		return err
	}
	defer func() { _ = hub.Close() }() // nothing is lost with it
	server, err := mirror(ctx, hub)
	if err != nil {
		return err
	}
	err = server.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(c.in), Writer: unclosed{c.out}})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// connectHub opens a session with the hub at the address of the command line.
func connectHub(ctx context.Context, g globals) (*sdk.ClientSession, error) {
	endpoint, err := url.JoinPath(g.URL, "mcp")
	if err != nil {
		return nil, fmt.Errorf("--url %q: %w", g.URL, err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "agentbus mcp", Version: service.Version}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, // the hub asks nothing of a client
	})
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: keyed(g.Key)}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to the hub at %s: %w", endpoint, err)
	}
	return session, nil
}

// mirror is a server with the tools of hub.
func mirror(ctx context.Context, hub *sdk.ClientSession) (*sdk.Server, error) {
	server := sdk.NewServer(&sdk.Implementation{Name: "agentbus", Version: service.Version}, &sdk.ServerOptions{
		Instructions: hub.InitializeResult().Instructions,
	})
	for tool, err := range hub.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("list the tools of the hub: %w", err)
		}
		server.AddTool(tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return hub.CallTool(ctx, &sdk.CallToolParams{Name: r.Params.Name, Arguments: r.Params.Arguments})
		})
	}
	return server, nil
}

// keyed sends an API key with every request.
type keyed string

// RoundTrip implements [http.RoundTripper].
func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if k != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(k))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// unclosed is an output that outlives the protocol on it.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
