package dev

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/service"
)

// announcer prints the addresses when the gateway is ready.
func (s *stack) announcer(addr net.Addr) service.Actor {
	url := "http://" + addr.String()
	return service.Actor{Name: "announcer", Run: func(ctx context.Context) error {
		if err := awaitReady(ctx, url+"/readyz"); err != nil {
			return err
		}
		s.options.Started(Info{
			URL: url, NATS: s.natsURL(), Data: s.options.Data,
			Config: s.options.ConfigFile, Agents: s.current.Load().agents(), Key: s.keys.key,
		})
		<-ctx.Done()
		return nil
	}}
}

// readyTime limits the wait for the gateway, whose dependencies run in the same process.
const readyTime = 30 * time.Second

func awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !isReady(ctx, url) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until %s says that the gateway is ready: %w", url, ctx.Err())
		}
	}
	return nil
}

func isReady(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (s *stack) natsURL() string {
	if s.servers.nats != nil {
		return s.servers.nats.URL()
	}
	return s.options.NATS
}
