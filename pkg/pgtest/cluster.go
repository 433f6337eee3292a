package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	superuser = "agentbus"
	patience  = 30 * time.Second
)

// watch runs the server until its standard input ends, which it does with the test process, and then removes everything.
const watch = `
"$1/postgres" -D "$2/data" -h 127.0.0.1 -p "$3" -k "" -c fsync=off -c synchronous_commit=off -c full_page_writes=off \
	-c max_connections=200 >"$2/log" 2>&1 </dev/null &
server=$!
read -r line
kill -INT $server
wait $server
rm -rf "$2"
`

// cluster is a running server.
type cluster struct {
	address string
	life    io.Closer // the watcher's standard input: must stay reachable, for a collected pipe is a closed one
}

// start creates a cluster in a new folder and returns it when it accepts connections.
func start() (cluster, error) {
	programs, err := find()
	if err != nil {
		return cluster{}, err
	}
	dir, err := os.MkdirTemp("", "agentbus-pgtest-")
	if err != nil {
		return cluster{}, err
	}
	who, err := servant(dir)
	if err != nil {
		return cluster{}, errors.Join(err, os.RemoveAll(dir))
	}
	if err := initialise(programs, dir, who); err != nil {
		return cluster{}, errors.Join(err, os.RemoveAll(dir))
	}
	return serve(programs, dir, who)
}

func initialise(programs, dir string, who *syscall.SysProcAttr) error {
	initdb := exec.Command(filepath.Join(programs, "initdb"), "-D", filepath.Join(dir, "data"), "-U", superuser,
		"-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = dir, who
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// Prepare creates a cluster in a temporary folder, for a test that stops and starts the server itself. It returns the
// command that runs it on addr, host:port, and the address of its database. The caller removes the command's folder
// when the server has ended. The server does not wait for the disk: its data survives a crash of the server, but not of
// the machine.
func Prepare(addr string) (server *exec.Cmd, url string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, "", err
	}
	programs, err := find()
	if err != nil {
		return nil, "", err
	}
	dir, err := os.MkdirTemp("", "agentbus-pgtest-")
	if err != nil {
		return nil, "", err
	}
	who, err := servant(dir)
	if err == nil {
		err = initialise(programs, dir, who)
	}
	if err != nil {
		return nil, "", errors.Join(err, os.RemoveAll(dir))
	}
	server = exec.Command(filepath.Join(programs, "postgres"), "-D", filepath.Join(dir, "data"), "-h", host, "-p", port, "-k", "",
		"-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=200")
	server.Dir, server.SysProcAttr = dir, who
	return server, fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", superuser, addr), nil
}

func serve(programs, dir string, who *syscall.SysProcAttr) (cluster, error) {
	port, err := freePort()
	if err != nil {
		return cluster{}, errors.Join(err, os.RemoveAll(dir))
	}
	watcher := exec.Command("/bin/sh", "-c", watch, "sh", programs, dir, strconv.Itoa(port))
	watcher.Dir, watcher.SysProcAttr = "/", who
	life, err := watcher.StdinPipe() // the operating system closes it when this process ends
	if err != nil {
		return cluster{}, errors.Join(err, os.RemoveAll(dir))
	}
	if err := watcher.Start(); err != nil {
		return cluster{}, errors.Join(err, os.RemoveAll(dir))
	}
	address := fmt.Sprintf("postgres://%s@127.0.0.1:%d/postgres?sslmode=disable", superuser, port)
	if err := Await(context.Background(), address); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return cluster{}, errors.Join(fmt.Errorf("%w: %s", err, log), life.Close(), watcher.Wait())
	}
	return cluster{address, life}, nil
}

// Await waits until the server answers, for some time at most.
func Await(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, address)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the PostgreSQL server did not answer within %s: %w", patience, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// find returns the folder of initdb and postgres.
func find() (string, error) {
	var folders []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if program, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(program))
		}
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		folders = append(folders, strings.TrimSpace(string(out)))
	}
	packaged, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.Reverse(packaged) // the newest first
	for _, folder := range append(folders, packaged...) {
		if isProgram(folder, "initdb") && isProgram(folder, "postgres") {
			return folder, nil
		}
	}
	return "", errors.New("initdb and postgres were not found on PATH, by pg_config, or in /usr/lib/postgresql")
}

func isProgram(folder, name string) bool {
	info, err := os.Stat(filepath.Join(folder, name))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// servant returns the credentials of the server: PostgreSQL refuses to run as root, so root gives dir to an
// unprivileged user.
func servant(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return new(syscall.SysProcAttr), nil // the current user
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("find a user to run PostgreSQL as, since it refuses root: %w", err)
		}
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
