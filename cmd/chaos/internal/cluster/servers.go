package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// servers makes the nodes that are not ours.
func (c *Cluster) servers(ctx context.Context) ([]*Node, error) {
	nats, err := c.natsNodes(ctx)
	if err != nil {
		return nil, err
	}
	postgres, err := c.postgres(ctx)
	if err != nil {
		return nats, err
	}
	return append(nats, c.redis(ctx), postgres), nil
}

func natsName(i int) string { return fmt.Sprintf("nats-%d", i) }

// natsNodes makes a server alone, or a cluster of them. Servers do not tell clients of one another, since clients go
// through proxies.
func (c *Cluster) natsNodes(ctx context.Context) ([]*Node, error) {
	count := c.options.Nodes
	routes := make([]string, count)
	for i := range routes {
		routes[i] = c.ports.next(ctx)
	}
	var nodes []*Node
	var urls []string
	for i := range count {
		name, addr, monitor := natsName(i), c.ports.next(ctx), c.ports.next(ctx)
		text := fmt.Sprintf("listen: %q\nhttp: %q\nserver_name: %q\njetstream { store_dir: %q, sync_interval: %q }\n",
			addr, monitor, name, filepath.Join(c.options.Dir, name), cmp.Or(c.options.Sync, "2m"))
		if count > 1 {
			text += fmt.Sprintf("cluster { name: chaos, listen: %q, no_advertise: true, routes: [nats://%s] }\n",
				routes[i], strings.Join(routes, ", nats://"))
		}
		file := filepath.Join(c.options.Dir, name+".conf")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return nodes, err
		}
		n := newNode(program{
			name: name, kind: NATS, path: c.options.Programs[string(NATS)], args: []string{"-c", file}, dir: c.options.Dir,
			ready: answers("http://" + monitor + "/healthz?js-enabled-only=true"),
		})
		n.Addr, n.Admin = addr, "http://"+monitor
		if len(c.disks) > 0 {
			n.disk = c.disks[i]
		}
		nodes = append(nodes, n)
		urls = append(urls, "nats://"+addr)
	}
	c.NATSURL = strings.Join(urls, ",")
	return nodes, nil
}

// redis keeps nothing on disk: what it forgets with its process must not matter.
func (c *Cluster) redis(ctx context.Context) *Node {
	addr := c.ports.next(ctx)
	_, port, _ := net.SplitHostPort(addr) // next made it
	n := newNode(program{
		name: "redis", kind: Redis, path: "redis-server", dir: c.options.Dir,
		args:  []string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no"},
		ready: func(ctx context.Context) error { return redisSays(ctx, addr, "PING", "+PONG") },
	})
	n.Addr = addr
	return n
}

// Flush empties Redis.
func (n *Node) Flush(ctx context.Context) error { return redisSays(ctx, n.Addr, "FLUSHALL", "+OK") }

// redisSays sends a command of one word and checks how the answer begins.
func redisSays(ctx context.Context, addr, word, want string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := fmt.Fprintf(conn, "%s\r\n", word); err != nil {
		return err
	}
	answer := make([]byte, len(want))
	n, err := conn.Read(answer)
	if err != nil || string(answer[:n]) != want {
		return errors.Join(fmt.Errorf("redis answers %s with %q", word, answer[:n]), err)
	}
	return nil
}

// postgres makes a data folder and the node that serves it. What a crash of the process leaves must do, so that writes
// need not reach the disk.
func (c *Cluster) postgres(ctx context.Context) (*Node, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(c.options.Dir, "postgres")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	var who *syscall.Credential // nil = whoever we are
	if os.Geteuid() == 0 {
		if who, err = servant(dir); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	//nolint:gosec // the path was found on this machine
	initdb := exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "-D", data, "-U", "agentbus", "-A", "trust",
		"-E", "UTF8", "--no-sync", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	addr := c.ports.next(ctx)
	_, port, _ := net.SplitHostPort(addr) // next made it
	c.Database = database(addr)
	n := newNode(program{
		name: "postgres", kind: Postgres, path: filepath.Join(programs, "postgres"), dir: c.options.Dir, as: who,
		args: []string{"-D", data, "-h", "127.0.0.1", "-p", port, "-k", "", "-c", "fsync=off", "-c", "max_connections=100"},
		term: syscall.SIGINT, // ends without waiting for its clients
		ready: func(ctx context.Context) error {
			conn, err := pgx.Connect(ctx, c.Database)
			if err != nil {
				return err
			}
			return conn.Close(ctx)
		},
	})
	n.Addr = addr
	return n, nil
}

// database is the URL of the database that PostgreSQL serves at addr.
func database(addr string) string { return "postgres://agentbus@" + addr + "/postgres?sslmode=disable" }

// postgresPrograms returns the folder of initdb and postgres.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	packaged, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(packaged) == 0 {
		return "", errors.Join(errors.New("initdb is neither on PATH nor in /usr/lib/postgresql: install the package postgresql"), err)
	}
	slices.Sort(packaged)
	return filepath.Dir(packaged[len(packaged)-1]), nil
}

// servant is who runs PostgreSQL in place of root, whom it refuses: a user who then owns dir.
func servant(dir string) (*syscall.Credential, error) {
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("find a user to run PostgreSQL as, since it refuses root: %w", err)
	}
	uid, errUser := strconv.ParseUint(account.Uid, 10, 32)
	gid, errGroup := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(errUser, errGroup); err != nil {
		return nil, err
	}
	who := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return who, os.Chown(dir, int(uid), int(gid))
}

// ports gives out loopback addresses. They lie below those that the system gives to outgoing connections, so that a
// process which was killed finds its own free again.
type ports struct{ last int }

const (
	lowestPort  = 15000
	highestPort = 32000
)

func (p *ports) next(ctx context.Context) string {
	if p.last == 0 {
		p.last = lowestPort + rand.IntN(highestPort-lowestPort) //nolint:gosec // nobody gains from guessing it
	}
	var config net.ListenConfig
	for {
		if p.last++; p.last > highestPort {
			p.last = lowestPort
		}
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.last))
		listener, err := config.Listen(ctx, "tcp", addr)
		if err == nil {
			_ = listener.Close() // it was opened just now, and nobody uses it
			return addr
		}
		if ctx.Err() != nil {
			return addr
		}
	}
}
