package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
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
	certificate *certificate // nil = without TLS
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
	if e.certificate, err = openCertificate(own.TLSCert, own.TLSKey); err != nil {
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
		e.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: e.certificate.get}
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
		_ = e.server.Close() // whoever is still there is cut off
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// certificate is read again at a reload.
type certificate struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// openCertificate reads a certificate; without file names there is none.
func openCertificate(certFile, keyFile string) (*certificate, error) {
	if certFile == "" && keyFile == "" {
		return nil, nil //nolint:nilnil // TLS is off, and nothing is wrong
	}
	if certFile == "" || keyFile == "" {
		return nil, errors.New("TLS needs both TLS_CERT_FILE and TLS_KEY_FILE")
	}
	c := &certificate{certFile: certFile, keyFile: keyFile}
	return c, c.load()
}

func (c *certificate) load() error {
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("TLS_CERT_FILE and TLS_KEY_FILE: %w", err)
	}
	c.current.Store(&pair)
	return nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}
