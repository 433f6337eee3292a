package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/service"
	agentserver "github.com/agentbus/agentbus/services/agent-server"
)

// edge serves the agent over HTTP.
type edge struct {
	agent       *agentserver.Server
	server      *http.Server
	listener    net.Listener
	certificate *service.Certificate // nil = without TLS
}

func listen(ctx context.Context, own env.AgentServer, agent *agentserver.Server, log *slog.Logger) (*edge, error) {
	e := &edge{agent: agent, server: &http.Server{
		Handler:           service.CloseChunked(agent.Handler()),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
	var err error
	if e.certificate, err = service.OpenCertificate(own.TLSCert, own.TLSKey); err != nil {
		return nil, err
	}
	var config net.ListenConfig
	if e.listener, err = config.Listen(ctx, "tcp", own.HTTPAddr); err != nil {
		return nil, fmt.Errorf("listen on HTTP_ADDR: %w", err)
	}
	address, isTCP := e.listener.Addr().(*net.TCPAddr)
	if e.certificate == nil && isTCP && !address.IP.IsLoopback() {
		log.WarnContext(ctx, "keys and tasks travel without TLS; set TLS_CERT_FILE and TLS_KEY_FILE, or stay in a private network",
			"address", address.String())
	}
	log.InfoContext(ctx, "listening", "address", e.listener.Addr().String(), "tls", e.certificate != nil)
	return e, nil
}

// run serves until ctx is done, and then for as long as answers take that are not streams.
func (e *edge) run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { // ends with Shutdown or Close
		if e.certificate == nil {
			served <- e.server.Serve(e.listener)
			return
		}
		e.server.TLSConfig = e.certificate.Config()
		served <- e.server.ServeTLS(e.listener, "", "")
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	e.agent.Drain()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if e.server.Shutdown(last) != nil {
		_ = e.server.Close() // closes the remaining connections
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
