package dev

import (
	"bytes"
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
)

// watchEvery is the time between two looks at the configuration file. Reading the file finds every kind of change, also by
// editors that replace it.
const watchEvery = 300 * time.Millisecond

// change is a new content of the configuration file.
type change struct {
	config config.Config
	err    error
}

// watch sends each change of the configuration file, read completely, until ctx is done. Without a file it sends nothing.
func (s *stack) watch(ctx context.Context) <-chan change {
	changes := make(chan change)
	if s.options.ConfigFile == "" {
		return changes
	}
	known, _ := os.ReadFile(s.options.ConfigFile) // an error is a change as soon as the file can be read
	go func() {                                   // ends with ctx
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		var before []byte
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			text, err := os.ReadFile(s.options.ConfigFile)
			whole := err == nil && bytes.Equal(text, before) // otherwise an editor may be writing it
			before = text
			if !whole || bytes.Equal(text, known) {
				continue
			}
			known = text
			c, err := s.options.load()
			select {
			case changes <- change{c, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes
}

// load returns the configuration of the environment and of the file.
func (o Options) load() (config.Config, error) {
	base := config.Default(o.Getenv).With(config.Config{Demo: true, Hub: allowPrivate()})
	if o.ConfigFile == "" {
		return base, nil
	}
	return config.Load(o.ConfigFile, base, Known(o.Extensions, o.Getenv))
}

func (g *generation) agents() []string { return slices.Sorted(maps.Keys(g.config.Agents)) }
