// Package pgserver makes PostgreSQL servers of the programs that the machine has installed, for tests, the benchmark and the
// fault harness.
package pgserver

import (
	"context"
	"errors"
	"fmt"
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

// superuser is the user of the databases. It needs no password.
const superuser = "agentbus"

// Server is a server with an empty database, which is not running.
type Server struct {
	Program string              // path of postgres
	Dir     string              // of the data and nothing else; the caller removes it
	User    *syscall.Credential // that the server runs as; nil = the current user
}

// New creates the data of a server in dir, which must not exist. PostgreSQL refuses to run as root, so root gives dir to an
// unprivileged user, who needs permission to enter the folders above it.
func New(ctx context.Context, dir string) (Server, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return Server{}, err
	}
	return create(ctx, dir)
}

// NewTemporary creates the data of a server in a new temporary folder.
func NewTemporary(ctx context.Context) (Server, error) {
	dir, err := os.MkdirTemp("", "agentbus-postgres-")
	if err != nil {
		return Server{}, err
	}
	return create(ctx, dir)
}

// create removes dir if it fails.
func create(ctx context.Context, dir string) (Server, error) {
	programs, err := find(ctx)
	s := Server{Program: filepath.Join(programs, "postgres"), Dir: dir}
	if err == nil {
		s.User, err = give(dir)
	}
	if err == nil {
		err = s.initialise(ctx, filepath.Join(programs, "initdb"))
	}
	if err != nil {
		return Server{}, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s Server) initialise(ctx context.Context, program string) error {
	args := []string{"-D", s.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--no-sync", "--no-instructions"}
	initdb := exec.CommandContext(ctx, program, args...) //nolint:gosec // a program that find has found
	initdb.Dir, initdb.SysProcAttr = s.Dir, &syscall.SysProcAttr{Credential: s.User}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func (s Server) data() string { return filepath.Join(s.Dir, "data") }

// Args returns the arguments of the program that serves at addr, host:port. The server does not wait for the disk: its data
// survives a crash of the server, but not of the machine.
func (s Server) Args(addr string) ([]string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address of PostgreSQL: %w", err)
	}
	return []string{
		"-D", s.data(), "-h", host, "-p", port, "-k", "", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200",
	}, nil
}

// URL returns the URL of the database that a server serves at addr.
func URL(addr string) string {
	return fmt.Sprintf("postgres://%s@%s/postgres?sslmode=disable", superuser, addr)
}

// Ping reports whether the database at url accepts connections.
func Ping(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// Await pings until the database accepts connections or ctx is done.
func Await(ctx context.Context, url string) error {
	for {
		err := Ping(ctx, url)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for PostgreSQL: %w", errors.Join(err, context.Cause(ctx)))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// find returns the folder of initdb and postgres.
func find(ctx context.Context) (string, error) {
	var folders []string
	if path, err := exec.LookPath("initdb"); err == nil {
		if program, err := filepath.EvalSymlinks(path); err == nil {
			folders = append(folders, filepath.Dir(program))
		}
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
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
	return "", errors.New("initdb and postgres were not found on PATH, by pg_config, or in /usr/lib/postgresql: install the package postgresql")
}

func isProgram(folder, name string) bool {
	info, err := os.Stat(filepath.Join(folder, name))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// give gives dir to the user that PostgreSQL runs as, if the current user is root.
func give(dir string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nil is the current user
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		if account, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("find a user to run PostgreSQL as, since it refuses root: %w", err)
		}
	}
	uid, errUser := strconv.ParseUint(account.Uid, 10, 32)
	gid, errGroup := strconv.ParseUint(account.Gid, 10, 32)
	if err := errors.Join(errUser, errGroup); err != nil {
		return nil, fmt.Errorf("user %s: %w", account.Username, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}
