package dev

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/embedded"
	"github.com/agentbus/agentbus/pkg/datadir"
	"github.com/alicebob/miniredis/v2"
)

// servers are the embedded servers, nil if a real one is used, and their addresses.
type servers struct {
	nats     *embedded.Server
	redis    *miniredis.Miniredis
	redisURL string
	database string
}

func (s *stack) openServers(ctx context.Context) error {
	o := s.options
	if o.Data != "" {
		var err error
		if s.data, err = datadir.Open(o.Data, "agentbus dev at "+o.Addr); err != nil {
			return fmt.Errorf("--data: %w", err)
		}
		s.closing(s.release)
	}
	if err := s.openNATS(ctx); err != nil {
		return err
	}
	s.servers.redisURL = o.Redis
	if o.Redis == "" {
		redis := miniredis.NewMiniRedis()
		if err := redis.StartAddr("127.0.0.1:0"); err != nil {
			return fmt.Errorf("start the embedded Redis: %w", err)
		}
		s.closing(redis.Close)
		address := url.URL{Scheme: "redis", Host: redis.Addr()}
		if password := s.password(); password != "" {
			redis.RequireAuth(password)
			address.User = url.UserPassword("", password)
		}
		s.servers.redis, s.servers.redisURL = redis, address.String()
	}
	s.servers.database = o.Database
	if o.Database == "" {
		s.servers.database = "sqlite::memory:"
		if o.Data != "" {
			s.servers.database = "sqlite:" + s.data.File("history.db")
		}
	}
	return nil
}

// password returns a new password for an embedded server where API keys are required: without it, every user of this
// machine could write keys. It returns "" otherwise.
func (s *stack) password() string {
	if !s.options.Auth {
		return ""
	}
	return rand.Text()
}

// release lets another process use the data folder.
func (s *stack) release() {
	if err := s.data.Close(); err != nil {
		s.options.Log.Error("release the data folder", "error", err)
	}
}

func (s *stack) openNATS(ctx context.Context) error {
	if s.options.NATS != "" {
		return nil
	}
	o := embedded.Options{Addr: s.options.NATSAddr, Token: s.password()}
	if s.options.Data != "" {
		o.Dir = s.data.File("nats")
	}
	if !isFree(ctx, o.Addr) {
		o.Addr = "127.0.0.1:0"
	}
	nats, err := embedded.Start(o)
	if err != nil {
		return err
	}
	s.servers.nats = nats
	s.closing(nats.Close)
	return nil
}

func isFree(ctx context.Context, addr string) bool {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// keepTime advances the time of the embedded Redis, which otherwise expires nothing.
func (s *servers) keepTime(ctx context.Context) error {
	if s.redis == nil {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case now := <-tick.C:
			s.redis.FastForward(now.Sub(last))
			last = now
		case <-ctx.Done():
			return nil
		}
	}
}
