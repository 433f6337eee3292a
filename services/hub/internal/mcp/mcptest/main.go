// Command mcptest serves /mcp as the hub does, with the tools, resources and prompts that the official MCP conformance suite
// requires of a server. It prints two URLs: of a server with sessions, which the versions before 2026-07-28 need to ask the client,
// and of one without, as the hub's is. There are no remote agents.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/services/hub/internal/mcp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mcptest:", err)
		os.Exit(1) //nolint:gocritic // nothing is deferred but stop
	}
}

func run(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/sessions", handler(true))
	mux.Handle("/mcp", handler(false))
	server := &http.Server{Handler: http.NewCrossOriginProtection().Handler(mux), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Fprintf(os.Stdout, "http://%s/sessions http://%[1]s/mcp\n", listener.Addr())
	if err := server.Serve(listener); ctx.Err() == nil {
		return err
	}
	return nil
}

func handler(sessions bool) http.Handler {
	o := mcp.Options{Door: noAgents{}, Version: service.Version(), Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Sessions: sessions}
	options := new(sdk.ServerOptions)
	fixtureOptions(options)
	server := mcp.NewServer(o, options)
	addFixtures(server)
	return mcp.Handler(server, o)
}

// noAgents is a hub without remote agents.
type noAgents struct{}

func (noAgents) AnswerTask(_ context.Context, a hubapi.Answer) (hubapi.Task, error) {
	return hubapi.Task{}, missing(a.AgentID)
}

func (noAgents) ListAgents(context.Context, hubapi.AgentsQuery) (hubapi.AgentList, error) {
	return hubapi.AgentList{Agents: []hubapi.Agent{}}, nil
}

func (noAgents) AssignTask(_ context.Context, a hubapi.Assignment) (hubapi.Task, error) {
	return hubapi.Task{}, missing(a.AgentID)
}

func (noAgents) CheckStatus(_ context.Context, r hubapi.TaskRef) (hubapi.Task, error) {
	return hubapi.Task{}, missing(r.AgentID)
}

func (noAgents) GetResult(_ context.Context, r hubapi.TaskRef) (hubapi.Task, error) {
	return hubapi.Task{}, missing(r.AgentID)
}

func (noAgents) CancelTask(_ context.Context, r hubapi.TaskRef) (hubapi.Cancelled, error) {
	return hubapi.Cancelled{}, missing(r.AgentID)
}

func missing(agentID string) error {
	return apierr.New(apierr.AgentNotFound, "there is no agent %q", agentID)
}
