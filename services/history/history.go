// Package history is the service that remembers: it projects every log into a SQL database and answers what pkg/historyapi
// asks. Any number of its processes share the work where the database is PostgreSQL.
//
// internal/projector is the way in, internal/responder the way out, internal/store the door to the databases between them.
package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/history/internal/projector"
	"github.com/agentbus/agentbus/services/history/internal/responder"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/agentbus/agentbus/services/history/internal/store/postgres"
	"github.com/agentbus/agentbus/services/history/internal/store/sqlite"
	"golang.org/x/sync/errgroup"
)

// Deps are what a History needs.
type Deps struct {
	Bus         Bus
	DatabaseURL string // postgres://user:password@host:port/name, sqlite:PATH or sqlite::memory:
	Log         *slog.Logger
}

// History is one process of the service.
type History struct {
	bus        Bus
	store      store.Store
	projector  *projector.Projector
	reconciler *projector.Reconciler
	closer     *projector.Closer
	answerer   *responder.Answerer
}

// New opens the database and brings its tables up to date. The caller runs Run, which closes it.
func New(ctx context.Context, d Deps) (*History, error) {
	if d.Log == nil {
		d.Log = slog.Default()
	}
	s, err := open(ctx, d.DatabaseURL)
	if err != nil {
		return nil, err
	}
	recorder, err := projector.New(s, d.Bus, d.Log)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	reconciler := projector.NewReconciler(s, d.Bus, recorder, d.Log)
	return &History{
		bus: d.Bus, store: s, projector: recorder, reconciler: reconciler, closer: projector.NewCloser(s.Reader, d.Bus, recorder, d.Log),
		answerer: responder.New(s.Reader, d.Bus, recorder, reconciler),
	}, nil
}

// open is the list of stores.
func open(ctx context.Context, url string) (store.Store, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		s, err := postgres.Open(ctx, url)
		return store.Of(s), err
	case scheme == "sqlite" && rest != "":
		s, err := sqlite.Open(ctx, rest)
		return store.Of(s), err
	default:
		return store.Store{}, fmt.Errorf("database address begins with %.12q: it must be postgres://user:password@host:port/name, "+
			"sqlite::memory: or sqlite:PATH", scheme)
	}
}

// Run projects and answers until ctx is done, and then closes the database.
func (h *History) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		h.closer.Run(ctx)
		return nil
	})
	group.Go(func() error {
		h.reconciler.Run(ctx)
		return nil
	})
	group.Go(func() error { return h.bus.Project(ctx, h.projector.Hurried(), h.projector.Apply) })
	group.Go(func() error { return h.bus.Serve(ctx, historyapi.Service, h.answerer.Verbs()) })
	return errors.Join(group.Wait(), h.store.Close())
}

// Ready reports why history cannot do its work, or nil.
func (h *History) Ready(ctx context.Context) error {
	if err := h.bus.Ready(ctx); err != nil {
		return err
	}
	if err := h.store.Ready(ctx); err != nil {
		return err
	}
	return h.reconciler.Ready()
}
