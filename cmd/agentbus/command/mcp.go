package command

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

// Run serves MCP over standard input and output: the tools of the hub's /mcp, for programs that start their MCP servers
// as processes.
func (mcpCommand) Run(ctx context.Context, g globals, c *console) error {
	ctx, stop := service.Signals(ctx)
	defer stop()
	hub, err := connectHub(ctx, g)
	if err != nil {
		return err
	}
	defer func() { _ = hub.Close() }() // nothing is lost
	server, err := mirror(ctx, hub)
	if err != nil {
		return err
	}
	err = server.Run(ctx, &sdk.IOTransport{Reader: io.NopCloser(c.in), Writer: nopCloser{c.out}})
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
	client := sdk.NewClient(&sdk.Implementation{Name: "agentbus mcp", Version: service.Version()}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{}, // the hub sends no requests to its clients
	})
	session, err := client.Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: keyTransport(g.Key)}, DisableStandaloneSSE: true,
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("connect to the hub at %s: %w", endpoint, err)
	}
	return session, nil
}

// mirror returns a server with the tools of hub.
func mirror(ctx context.Context, hub *sdk.ClientSession) (*sdk.Server, error) {
	server := sdk.NewServer(&sdk.Implementation{Name: "agentbus", Version: service.Version()}, &sdk.ServerOptions{
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

// keyTransport adds an API key to every request.
type keyTransport string

// RoundTrip implements [http.RoundTripper].
func (k keyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if k != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(k))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// nopCloser is a writer that is not closed with the protocol that uses it.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
