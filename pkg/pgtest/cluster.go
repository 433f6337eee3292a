package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/agentbus/agentbus/internal/loopback"
	"github.com/agentbus/agentbus/internal/pgserver"
)

// startWait bounds the start of the server.
const startWait = 30 * time.Second

// watch runs the server until its standard input ends, which it does with the test process, and then removes everything.
const watch = `
dir=$1; shift
"$@" -c synchronous_commit=off >"$dir/log" 2>&1 </dev/null &
server=$!
read -r line
kill -INT $server
wait $server
rm -rf "$dir"
`

// cluster is a running server.
type cluster struct {
	address string
	life    io.Closer // the watcher's standard input: must stay reachable, for a collected pipe is a closed one
}

// start creates a server in a new folder and returns it when it accepts connections.
func start() (cluster, error) {
	ctx := context.Background()
	server, err := pgserver.NewTemporary(ctx)
	if err != nil {
		return cluster{}, err
	}
	c, err := serve(ctx, server)
	if err != nil {
		return cluster{}, errors.Join(err, os.RemoveAll(server.Dir))
	}
	return c, nil
}

func serve(ctx context.Context, server pgserver.Server) (cluster, error) {
	addr, err := new(loopback.Ports).Next(ctx)
	if err != nil {
		return cluster{}, err
	}
	args, err := server.Args(addr)
	if err != nil {
		return cluster{}, err
	}
	watcher := exec.Command("/bin/sh", append([]string{"-c", watch, "sh", server.Dir, server.Program}, args...)...)
	watcher.Dir, watcher.SysProcAttr = "/", &syscall.SysProcAttr{Credential: server.User}
	life, err := watcher.StdinPipe() // the operating system closes it when this process ends
	if err != nil {
		return cluster{}, err
	}
	if err := watcher.Start(); err != nil {
		return cluster{}, err
	}
	url := pgserver.URL(addr)
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	if err := pgserver.Await(ctx, url); err != nil {
		log, _ := os.ReadFile(filepath.Join(server.Dir, "log"))
		return cluster{}, errors.Join(fmt.Errorf("%w: %s", err, log), life.Close(), watcher.Wait())
	}
	return cluster{url, life}, nil
}
