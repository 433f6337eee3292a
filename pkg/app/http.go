package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/pkg/service"
)

// closeTime is how long requests in flight may take once the server has been asked to stop and the service has let its
// streams go.
const closeTime = 10 * time.Second

// Serve returns the actor of an HTTP server. It listens before it returns, so that an address in use is an error at the
// start. It serves TLS if server has a TLSConfig. It accepts what limit lets through. When the actor stops it calls drain, which ends what would never end by
// itself, and waits for the rest.
func Serve(
	ctx context.Context, server *http.Server, limit func(net.Listener) net.Listener, drain func(),
) (service.Actor, net.Addr, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", server.Addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return service.Actor{}, nil, fmt.Errorf("open the HTTP server: another process listens on %s (%w); "+
			"stop it, or choose another address: HTTP_ADDR, or --addr of agentbus dev", server.Addr, err)
	}
	if err != nil {
		return service.Actor{}, nil, fmt.Errorf("open the HTTP server: %w", err)
	}
	addr := listener.Addr()
	listener = limit(listener)
	run := func(ctx context.Context) error {
		ended := make(chan error, 1)
		go func() { ended <- serve(server, listener) }() // ends with Shutdown or Close
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
		}
		drain()
		shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
		defer cancel()
		err := server.Shutdown(shut)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	}
	return service.Actor{Name: "http", Run: run}, addr, nil
}

func serve(server *http.Server, listener net.Listener) error {
	if server.TLSConfig != nil {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}
