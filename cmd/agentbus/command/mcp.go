package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/dev"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/pkg/tool/mcp"
	"github.com/agentbus/agentbus/pkg/tool/mcpconfig"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type mcpCommand struct {
	Serve mcpServeCommand `cmd:"" default:"1" help:"Serve the tools of the hub over standard input and output."`
	Login mcpLoginCommand `cmd:"" local:"" help:"Log in at an MCP server of the configuration, whose tools then act for the user."`
}

type mcpLoginCommand struct {
	Server string `arg:"" help:"Name of the server under mcp of the configuration."`
	Config string `default:"agentbus.yaml" type:"path" help:"Configuration file."`
	Port   int    `help:"Port of this machine for the redirect, for a client with a fixed one; 0 takes any."`
}

// Run stores the tokens of the user in the token file of the server.
func (cmd *mcpLoginCommand) Run(ctx context.Context, g globals, c *console) error {
	ctx, stop := service.Signals(ctx)
	defer stop()
	known := dev.Known(c.extensions, c.getenv)
	known.Secret = nil // only those of the server are needed
	cfg, err := config.Load(cmd.Config, config.Default(c.getenv), known)
	if err != nil {
		return err
	}
	m, ok := cfg.MCP[cmd.Server]
	if !ok {
		return fmt.Errorf("%s has no MCP server %q; its servers are: %s", cmd.Config, cmd.Server, strings.Join(slices.Sorted(maps.Keys(cfg.MCP)), ", "))
	}
	options, err := mcpconfig.Options(cmd.Server, m, env.Secrets(c.getenv))
	if err != nil {
		return fmt.Errorf("mcp.%s.%w", cmd.Server, err)
	}
	options.Version = service.Version()
	err = mcp.Login(ctx, options, cmd.Port, func(page string) error {
		if g.JSON {
			return line(c.out, map[string]string{"page": page})
		}
		_, err := fmt.Fprintf(c.out, "Open this page in a browser of this machine and log in:\n\n  %s\n\n", screen.Clean(page))
		return err
	})
	if err != nil {
		return err
	}
	if g.JSON {
		return line(c.out, map[string]string{"server": cmd.Server, "tokenFile": m.OAuth.TokenFile})
	}
	_, err = fmt.Fprintf(c.out, "logged in at %s; the tokens are in %s\n", cmd.Server, m.OAuth.TokenFile)
	return err
}

type mcpServeCommand struct{}

// Run serves MCP over standard input and output: the tools of the hub's /mcp, for programs that start their MCP servers
// as processes.
func (mcpServeCommand) Run(ctx context.Context, g globals, c *console) error {
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
