// Package embedded runs a NATS server inside this process: for development and for tests. It is the real server.
package embedded

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Options say where the server keeps its data and whether others may connect.
type Options struct {
	Dir  string // "" = a temporary folder that Close removes
	Addr string // host:port to listen on, port 0 = any free one; "" = this process only
	// Token is what clients must present, those of this process too; "" = every client on Addr has access.
	Token string
}

// Server is a running server with JetStream.
type Server struct {
	nats  *server.Server
	token string
	temp  string
}

// startWait bounds the wait for a server that recovers its streams.
const startWait = 30 * time.Second

// Start starts a server and waits until it takes connections.
func Start(o Options) (*Server, error) {
	s := &Server{token: o.Token}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "agentbus-nats-")
		if err != nil {
			return nil, fmt.Errorf("folder for NATS: %w", err)
		}
		s.temp, o.Dir = dir, dir
	}
	options := &server.Options{
		ServerName: "embedded", JetStream: true, StoreDir: o.Dir, DontListen: o.Addr == "", NoSigs: true, NoLog: true,
		Authorization: o.Token,
	}
	if o.Addr != "" {
		if err := listenAt(options, o.Addr); err != nil {
			return nil, s.giveUp(err)
		}
	}
	nats, err := server.NewServer(options)
	if err != nil {
		return nil, s.giveUp(fmt.Errorf("make NATS server: %w", err))
	}
	s.nats = nats
	nats.Start()
	if !nats.ReadyForConnections(startWait) {
		s.Close()
		return nil, fmt.Errorf("embedded NATS server in %s is not ready after %s: is another process using the folder or %q?",
			o.Dir, startWait, o.Addr)
	}
	return s, nil
}

func listenAt(options *server.Options, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address of NATS: %w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("address of NATS: port %q is not a number", port)
	}
	if number == 0 {
		number = server.RANDOM_PORT
	}
	options.Host, options.Port = host, number
	return nil
}

func (s *Server) giveUp(err error) error {
	if s.temp == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(s.temp))
}

// InProcessConn connects from this process without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// URL is where others connect, with the token, or "" when the server does not listen.
func (s *Server) URL() string {
	addr := s.nats.Addr()
	if addr == nil {
		return ""
	}
	u := url.URL{Scheme: "nats", Host: addr.String()}
	if s.token != "" {
		u.User = url.User(s.token)
	}
	return u.String()
}

// Close stops the server and waits for it.
func (s *Server) Close() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	if s.temp != "" {
		_ = os.RemoveAll(s.temp) // a temporary folder: the system removes what is left
	}
}
