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
	stop  context.CancelFunc // stops the services one after the other
	halt  context.CancelFunc // stops all of them at once
	ended chan error
}

func start(ctx context.Context, g *generation) running {
	whole := context.WithoutCancel(ctx)
	ordered, stop := context.WithCancel(whole)
	together, halt := context.WithCancel(whole)
	r := running{g, stop, halt, make(chan error, 1)}
	go func() { r.ended <- service.RunActors(ordered, haltedBy(together, g.actors), grace) }() // ends after stop; its owner receives from ended
	return r
}

// haltedBy returns the actors with contexts that are also done when ctx is.
func haltedBy(ctx context.Context, actors []service.Actor) []service.Actor {
	halted := make([]service.Actor, len(actors))
	for i, a := range actors {
		halted[i] = service.Actor{Name: a.Name, Run: func(own context.Context) error {
			both, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(own, cancel)()
			if err := a.Run(both); err != nil && (both.Err() == nil || !errors.Is(err, context.Canceled)) {
				return err
			}
			return nil
		}}
	}
	return halted
}

// end stops the services in order, and waits for them.
func (r running) end() error {
	r.stop()
	err := <-r.ended
	r.halt()
	return err
}

// retire stops the services. When it returns, none of them takes new work; ended reports when all have finished theirs.
func (r running) retire() {
	r.gateway.Drain()
	r.halt()
	r.stop()
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
			now.halt()
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
			old.retire() // before the report, after which the earlier configuration must have no effect
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
