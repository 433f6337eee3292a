// Package agentserver is the spoke of S3: it runs tasks on one machine, for a hub or for anyone with a key, over HTTP. It
// stands alone: it needs no broker, and keeps what it must not forget in one SQLite file.
//
// Read internal/desk for how tasks come, wait and go, internal/work for how one is run, internal/api for the wire, and
// backends.go for what may run tasks. pkg/spoke is the protocol.
package agentserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/agentbus/agentbus/pkg/spoke"
	"github.com/agentbus/agentbus/services/agent-server/internal/access"
	"github.com/agentbus/agentbus/services/agent-server/internal/api"
	"github.com/agentbus/agentbus/services/agent-server/internal/desk"
	"github.com/agentbus/agentbus/services/agent-server/internal/measure"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/agentbus/agentbus/services/agent-server/internal/uplink"
	"github.com/agentbus/agentbus/services/agent-server/internal/work"
	"golang.org/x/sync/errgroup"
)

// Server is an agent and all that serves it. Its methods are safe for concurrent use.
type Server struct {
	settings Settings
	store    *store.Store
	keys     *access.Keyring
	desk     *desk.Desk
	api      *api.API
	uplink   *uplink.Uplink // nil = there is no hub
	agent    *agent
	log      *slog.Logger
}

const (
	streamHeartbeat = 15 * time.Second
	maxStreams      = 256
	folderMode      = 0o700 // the store holds keys
)

// New opens an agent-server. Nothing runs before [Server.Run].
func New(ctx context.Context, s Settings, log *slog.Logger) (*Server, error) {
	if err := os.MkdirAll(s.DataDir, folderMode); err != nil {
		return nil, fmt.Errorf("folder for data (DATA_DIR): %w", err)
	}
	kept, err := store.Open(ctx, filepath.Join(s.DataDir, "agent.db"))
	if err != nil {
		return nil, err
	}
	server, err := build(ctx, s, kept, log)
	if err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	return server, nil
}

func build(ctx context.Context, s Settings, kept *store.Store, log *slog.Logger) (*Server, error) {
	server := &Server{settings: s, store: kept, log: log}
	var err error
	if server.keys, err = access.Open(ctx, kept, s.Keys); err != nil {
		return nil, err
	}
	if server.agent, err = newAgent(ctx, server); err != nil {
		return nil, err
	}
	meter, err := measure.New()
	if err != nil {
		return nil, fmt.Errorf("metrics of the agent-server: %w", err)
	}
	worker := work.New(work.Deps{
		Store: kept, Backend: s.Backend, Agent: s.Agent, Limits: s.Limits, Script: s.Script,
		CompressAt: s.CompressAt, Window: s.Window, Price: s.Price, Tools: s.Tools, FolderTools: s.FolderTools,
		FailOnStop: !s.Resume, Log: log, Changed: func(taskID string) { server.desk.Changed(taskID) },
		Ended: func(ctx context.Context, task spoke.Task) { meter.Ended(ctx, s.BackendName, task) },
	})
	server.desk, err = desk.Open(ctx, desk.Deps{
		Store: kept, Run: worker.Run, Places: s.Places, Queue: s.Queue, Root: s.Root,
		Retention: desk.Retention(s.Keep), HandOver: s.Resume, Grace: s.Grace, Log: log, Ended: server.ended,
	})
	if err != nil {
		return nil, err
	}
	server.api = api.New(api.Deps{
		Desk: server.desk, Agent: server.agent, Keys: server.keys, Rate: access.Rate(s.Rate), MaxBody: s.MaxBody,
		Heartbeat: streamHeartbeat, Streams: maxStreams, Log: log,
	})
	if s.Hub != "" {
		server.uplink = uplink.New(uplink.Deps{
			Store: kept, Hub: s.Hub, Token: s.Token, Register: server.registration, Condition: server.agent.condition,
			Key: server.keys.Newest, AgentID: s.ID, Name: s.Name, Every: s.Heartbeat, Log: log,
		})
	}
	return server, nil
}

func (s *Server) ended() {
	if s.uplink != nil {
		s.uplink.Ended()
	}
}

func (s *Server) registration() spoke.Registration {
	return spoke.Registration{
		ID: s.settings.ID, URL: s.settings.URL, Name: s.settings.Name, Capabilities: s.settings.Capabilities, Key: s.keys.Newest(),
	}
}

// Handler serves everything that the agent-server serves.
func (s *Server) Handler() http.Handler { return s.api }

// Drain ends the open streams; everything else is still served.
func (s *Server) Drain() { s.api.Drain() }

// Run runs tasks, and speaks to the hub, until ctx is done. It then gives the tasks the grace, and records how the rest
// was cut off.
func (s *Server) Run(ctx context.Context) error {
	var group errgroup.Group
	beside, stop := context.WithCancel(context.WithoutCancel(ctx)) // the hub shall hear how the last tasks ended
	group.Go(func() error {
		defer stop()
		return s.desk.Run(ctx)
	})
	group.Go(func() error { return s.desk.Sweep(beside) })
	if s.uplink != nil {
		group.Go(func() error { return s.uplink.Run(beside) })
	}
	return group.Wait()
}

// Reload takes other keys in place of those that the operator gave before.
func (s *Server) Reload(ctx context.Context, keys []string) error { return s.keys.Reload(ctx, keys) }

// Ready reports why the agent-server is of no use, or nil.
func (s *Server) Ready(ctx context.Context) error { return s.store.Ready(ctx) }

// Close closes the store. Run must have returned.
func (s *Server) Close() error { return s.store.Close() }
