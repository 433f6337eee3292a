// Package agentserver is the agent-server of the TARS hub protocol: it runs tasks on one machine over HTTP, for a hub
// or for any client with a key. It needs no broker, and stores its state in one SQLite file.
//
// Read internal/scheduler for how tasks are accepted, queued and ended, internal/worker for how one is run,
// internal/api for HTTP, and backends.go for the backends. pkg/remoteagent is the protocol.
package agentserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/datadir"
	"github.com/agentbus/agentbus/pkg/limit"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/api"
	"github.com/agentbus/agentbus/services/agent-server/internal/authz"
	"github.com/agentbus/agentbus/services/agent-server/internal/hubclient"
	"github.com/agentbus/agentbus/services/agent-server/internal/metrics"
	"github.com/agentbus/agentbus/services/agent-server/internal/scheduler"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/agentbus/agentbus/services/agent-server/internal/worker"
	"golang.org/x/sync/errgroup"
)

// Server is an agent and all that serves it. Its methods are safe for concurrent use.
type Server struct {
	settings  Settings
	data      *datadir.Dir
	store     *store.Store
	keys      *authz.Keyring
	scheduler *scheduler.Scheduler
	api       *api.API
	hub       *hubclient.Client // nil = no hub
	agent     *agent
	log       *slog.Logger
}

const (
	streamHeartbeat = 15 * time.Second
	maxStreams      = 256
	secretFile      = "secret" // hashes and seals the keys in the store
)

// New opens an agent-server. Nothing runs before [Server.Run].
func New(ctx context.Context, s Settings, log *slog.Logger) (*Server, error) {
	data, err := datadir.Open(s.DataDir, "agent-server "+s.ID)
	if err != nil {
		return nil, fmt.Errorf("DATA_DIR: %w", err)
	}
	kept, err := store.Open(ctx, data.File("agent.db"))
	if err != nil {
		return nil, errors.Join(err, data.Close())
	}
	server := &Server{settings: s, data: data, store: kept, log: log}
	if err := server.build(ctx); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

func (s *Server) build(ctx context.Context) error {
	c := s.settings
	secret, err := s.data.Secret(secretFile)
	if err != nil {
		return err
	}
	if s.keys, err = authz.Open(ctx, s.store, secret, c.Keys); err != nil {
		return err
	}
	if s.agent, err = newAgent(ctx, s); err != nil {
		return err
	}
	meter, err := metrics.New()
	if err != nil {
		return fmt.Errorf("metrics of the agent-server: %w", err)
	}
	worker := worker.New(worker.Deps{
		Store: s.store, Backend: c.Backend, Agent: c.Agent, Limits: c.Limits, Permissions: c.Permissions, Script: c.Script,
		CompressAt: c.CompressAt, Window: c.Window, Price: c.Price, Tools: c.Tools, FolderTools: c.FolderTools,
		FailOnStop: !c.Resume, Log: s.log, Changed: func(taskID string) { s.scheduler.Changed(taskID) },
		Ended: func(ctx context.Context, task remoteagent.Task) { meter.Ended(ctx, c.BackendName, task) },
	})
	s.scheduler, err = scheduler.Open(ctx, scheduler.Deps{
		Store: s.store, Events: s.store, Run: worker.Run, Places: c.Places, Queue: c.Queue, Root: c.Root,
		CheckModel: c.CheckModel, MaxPermissionMode: c.Permissions.Max,
		Retention: scheduler.Retention(c.Keep), HandOver: c.Resume, Grace: c.Grace, Log: s.log, Ended: s.ended,
	})
	if err != nil {
		return err
	}
	s.api = api.New(api.Deps{
		Scheduler: s.scheduler, Events: s.scheduler, Agent: s.agent, Keys: s.keys, OpenFile: s.openFile, Rate: limit.Rate(c.Rate), MaxBody: c.MaxBody,
		Heartbeat: streamHeartbeat, Streams: maxStreams, Log: s.log,
	})
	if c.Hub != "" {
		s.hub = hubclient.New(hubclient.Deps{
			Store: s.store, Hub: c.Hub, Token: c.Token, Register: s.registration, Condition: s.agent.condition,
			Key: s.keys.Newest, AgentID: c.ID, Name: c.Name, Every: c.Heartbeat, Log: s.log,
		})
	}
	return nil
}

func (s *Server) ended() {
	if s.hub != nil {
		s.hub.Ended()
	}
}

func (s *Server) registration() remoteagent.Registration {
	return remoteagent.Registration{
		ID: s.settings.ID, URL: s.settings.URL, Name: s.settings.Name, Capabilities: s.settings.Capabilities, Key: s.keys.Newest(),
	}
}

// Handler serves everything that the agent-server serves.
func (s *Server) Handler() http.Handler { return s.api }

// Routes lists what Handler serves, as patterns of [http.ServeMux].
func (s *Server) Routes() []string { return s.api.Routes() }

// Drain ends the open streams; everything else is still served.
func (s *Server) Drain() { s.api.Drain() }

// Run runs tasks, and speaks to the hub, until ctx is done. It then gives the tasks the grace, and records how the rest
// was cut off.
func (s *Server) Run(ctx context.Context) error {
	var group errgroup.Group
	background, stop := context.WithCancel(context.WithoutCancel(ctx)) // the hub client outlives ctx, to report the end of the last tasks
	group.Go(func() error {
		defer stop()
		return s.scheduler.Run(ctx)
	})
	group.Go(func() error { return s.scheduler.Sweep(background) })
	group.Go(func() error { return s.agent.watch(background) })
	group.Go(func() error {
		s.settings.toolServers.run(background, s.log)
		return nil
	})
	if s.hub != nil {
		group.Go(func() error { return s.hub.Run(background) })
	}
	return group.Wait()
}

// Reload takes other keys in place of those that the operator gave before.
func (s *Server) Reload(ctx context.Context, keys []string) error { return s.keys.Reload(ctx, keys) }

// Ready reports why the agent-server is of no use, or nil.
func (s *Server) Ready(ctx context.Context) error { return s.store.Ready(ctx) }

// Close closes the store. Run must have returned.
func (s *Server) Close() error { return errors.Join(s.store.Close(), s.data.Close()) }
