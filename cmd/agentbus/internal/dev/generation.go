package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/service"
	"github.com/agentbus/agentbus/services/gateway"
)

// generation is the services that one configuration determines. When the file changes, the next generation starts, and this
// one stops as its services do in a deployment: open streams end and their clients resume, and requests that run are handed
// over.
type generation struct {
	config  config.Config
	actors  []service.Actor
	gateway *gateway.Gateway
	handler http.Handler
}

// newGeneration builds the services of a configuration on the open connections.
func (s *stack) newGeneration(c config.Config) (*generation, error) {
	if err := c.FitsRetention(s.retention); err != nil {
		return nil, fmt.Errorf("%s: %w", s.options.ConfigFile, err)
	}
	g := &generation{config: c}
	for _, build := range []func(*generation) error{s.toolExecutor, s.agentRunner, s.gateway} {
		if err := build(g); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// running is a generation that runs.
type running struct {
	*generation
	stop  context.CancelFunc
	ended chan error
}

func start(ctx context.Context, g *generation) running {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := running{g, stop, make(chan error, 1)}
	go func() { r.ended <- service.RunActors(ctx, g.actors, grace) }() // ends after stop; its owner receives from ended
	return r
}

func (r running) end() error {
	r.stop()
	return <-r.ended
}

// runGenerations runs the current generation, and replaces it whenever the configuration has changed.
func (s *stack) runGenerations(ctx context.Context) error {
	changed := s.watch(ctx)
	var retired sync.WaitGroup
	defer retired.Wait()
	now := start(ctx, s.current.Load())
	for {
		select {
		case <-ctx.Done():
			return now.end()
		case err := <-now.ended:
			return err
		case c := <-changed:
			next, err := s.newGeneration(c.config)
			if err = errors.Join(c.err, err); err != nil {
				s.options.Reloaded(nil, err)
				continue
			}
			if !reflect.DeepEqual(next.config.Hub, now.config.Hub) {
				s.options.Log.WarnContext(ctx, "the section hub of the configuration changes at the next start")
			}
			old := now
			now = start(ctx, next)
			s.current.Store(next)
			old.gateway.Drain()
			old.stop() // before the report, so that few calls after it meet the earlier configuration
			retired.Go(func() {
				if err := <-old.ended; err != nil {
					s.options.Log.ErrorContext(ctx, "services of the earlier configuration did not stop in order", "error", err)
				}
			})
			s.options.Reloaded(next.agents(), nil)
		}
	}
}

// ServeHTTP serves a request with the current generation.
func (s *stack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.current.Load().handler.ServeHTTP(w, r)
}

func (s *stack) drain() { s.current.Load().gateway.Drain() }
