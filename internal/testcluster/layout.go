// Package testcluster runs agentbus as it runs in production, as separate processes on loopback addresses: NATS (one server
// or three), Redis, PostgreSQL and the services. The end-to-end tests, the benchmark and the fault harness use it.
//
// A [Layout] assigns names and addresses and describes the processes, a [Process] is one of them, and a [Group] is those that
// are started and stopped together.
package testcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/agentbus/agentbus/internal/loopback"
	"github.com/agentbus/agentbus/internal/pgserver"
)

// Kind is what a process is.
type Kind string

// The kinds.
const (
	NATS     Kind = "nats"
	Redis    Kind = "redis"
	Postgres Kind = "postgres"
	Gateway  Kind = "gateway"
	Runner   Kind = "agent-runner"
	Executor Kind = "tool-executor"
	History  Kind = "history"
	Hub      Kind = "hub"
	Agent    Kind = "agent-server"
	Dev      Kind = "agentbus" // everything in one process, with `agentbus dev`
)

// Services lists the services of this module.
func Services() []Kind { return []Kind{Gateway, Runner, Executor, History, Hub, Agent} }

// Layout describes the processes of one cluster. It is not safe for concurrent use.
type Layout struct {
	Dir      string // for data, configuration and logs; it exists
	Programs Programs

	ports  loopback.Ports
	counts map[Kind]int // of the processes that were described
}

// Addr assigns a loopback address.
func (l *Layout) Addr(ctx context.Context) (string, error) { return l.ports.Next(ctx) }

// addrs assigns n addresses.
func (l *Layout) addrs(ctx context.Context, n int) ([]string, error) {
	all := make([]string, n)
	for i := range all {
		var err error
		if all[i], err = l.Addr(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// command begins the description of a process, and numbers its name.
func (l *Layout) command(kind Kind) Command {
	if l.counts == nil {
		l.counts = map[Kind]int{}
	}
	n := l.counts[kind]
	l.counts[kind]++
	return Command{Kind: kind, Name: Name(kind, n), Path: l.Programs[kind], Dir: l.Dir}
}

// Name is the name of process n of a kind, counted from 0. There is one Redis and one PostgreSQL server.
func Name(kind Kind, n int) string {
	if kind == Redis || kind == Postgres {
		return string(kind)
	}
	return fmt.Sprintf("%s-%d", kind, n)
}

// NATSOptions configure the NATS servers.
type NATSOptions struct {
	Nodes int    // 1, or 3 for a cluster
	Sync  string // sync_interval; "" = the default of NATS, two minutes
	More  string // more configuration
}

// NATS describes the NATS servers. They store their streams below Dir, in the folder of their name. The servers of a cluster
// do not announce one another to clients, which can be connected through proxies.
func (l *Layout) NATS(ctx context.Context, o NATSOptions) ([]Command, error) {
	routes, err := l.addrs(ctx, o.Nodes)
	if err != nil {
		return nil, err
	}
	all := make([]Command, o.Nodes)
	for i := range all {
		addrs, err := l.addrs(ctx, 2)
		if err != nil {
			return nil, err
		}
		c := l.command(NATS)
		text := fmt.Sprintf("listen: %q\nhttp: %q\nserver_name: %q\njetstream { store_dir: %q, sync_interval: %q }\n%s\n",
			addrs[0], addrs[1], c.Name, filepath.Join(l.Dir, c.Name), cmp.Or(o.Sync, "2m"), o.More)
		if o.Nodes > 1 {
			text += fmt.Sprintf("cluster { name: cluster, listen: %q, no_advertise: true, routes: [nats://%s] }\n",
				routes[i], strings.Join(routes, ", nats://"))
		}
		file := filepath.Join(l.Dir, c.Name+".conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nil, err
		}
		c.Args, c.Addr, c.Admin = []string{"-c", file}, addrs[0], "http://"+addrs[1]
		c.Ready = Answers(c.Admin + "/healthz?js-enabled-only=true")
		all[i] = c
	}
	return all, nil
}

// NATSURL is the URL of servers that [Layout.NATS] described.
func NATSURL(servers []Command) string {
	urls := make([]string, len(servers))
	for i, c := range servers {
		urls[i] = "nats://" + c.Addr
	}
	return strings.Join(urls, ",")
}

// Redis describes the Redis server of the machine, which stores nothing on disk.
func (l *Layout) Redis(ctx context.Context) (Command, error) {
	addr, err := l.Addr(ctx)
	if err != nil {
		return Command{}, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return Command{}, err
	}
	c := l.command(Redis)
	c.Path, c.Addr = "redis-server", addr
	c.Args = []string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no"}
	c.Ready = func(ctx context.Context) error { return AskRedis(ctx, addr, "PING", "+PONG") }
	return c, nil
}

// RedisURL is the URL of the Redis server at addr.
func RedisURL(addr string) string { return "redis://" + addr + "/0" }

// Postgres describes a PostgreSQL server with an empty database, whose data is in a folder that pgserver has made.
func (l *Layout) Postgres(ctx context.Context, server pgserver.Server) (Command, error) {
	addr, err := l.Addr(ctx)
	if err != nil {
		return Command{}, err
	}
	c := l.command(Postgres)
	if c.Args, err = server.Args(addr); err != nil {
		return Command{}, err
	}
	c.Path, c.Dir, c.LogDir, c.User, c.Addr = server.Program, server.Dir, l.Dir, server.User, addr
	c.Term = syscall.SIGINT // ends without waiting for its clients
	c.Ready = func(ctx context.Context) error { return pgserver.Ping(ctx, pgserver.URL(addr)) }
	return c, nil
}

// Servers are the URLs of the servers of a service.
type Servers struct{ NATS, Redis, Database string }

// Service describes a process of a service. More is added to its environment, and overrides it. Servers is nil for a service
// that uses none.
func (l *Layout) Service(ctx context.Context, kind Kind, servers *Servers, more ...string) (Command, error) {
	addrs, err := l.addrs(ctx, 2)
	if err != nil {
		return Command{}, err
	}
	if l.Programs[kind] == "" {
		return Command{}, errors.New("describe " + string(kind) + ": it was not built")
	}
	c := l.command(kind)
	c.Addr, c.Admin = addrs[0], "http://"+addrs[1]
	c.Env = []string{"HTTP_ADDR=" + addrs[0], "ADMIN_ADDR=" + addrs[1]}
	if servers != nil {
		c.Env = append(c.Env, "NATS_URL="+servers.NATS, "REDIS_URL="+servers.Redis, "DATABASE_URL="+servers.Database)
	}
	c.Env = append(c.Env, more...)
	c.Ready = Answers(c.Admin + "/readyz")
	return c, nil
}
