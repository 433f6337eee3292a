// Package datadir owns the data folder of a process: one process at a time uses a folder, and its files are private to
// the user that runs the process.
package datadir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

const (
	folderMode = 0o700
	fileMode   = 0o600
	// lockFile holds the lock, ownerFile says which process holds it: on Windows a locked file cannot be read.
	lockFile  = "agentbus.lock"
	ownerFile = "agentbus.pid"
	// maxOwner bounds what is read from ownerFile, in bytes.
	maxOwner = 256
)

// ErrInUse says that another process uses the folder.
var ErrInUse = errors.New("the data folder is in use")

// Dir is a data folder that this process has locked. Its methods are safe for concurrent use.
type Dir struct {
	path string
	lock *flock.Flock
}

// Open creates the folder if necessary, withdraws the permissions of other users, and locks it for process, the name
// that a second process reports. The kernel releases the lock when the process ends, however it ends. The error is
// [ErrInUse] when another process holds the lock.
func Open(path, process string) (*Dir, error) {
	if err := os.MkdirAll(path, folderMode); err != nil {
		return nil, fmt.Errorf("create the data folder: %w", err)
	}
	// A mounted volume may belong to another user. The files in it are private by their own modes.
	if err := os.Chmod(path, folderMode); err != nil && !errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("make the data folder private: %w", err)
	}
	d := &Dir{path: path, lock: flock.New(filepath.Join(path, lockFile), flock.SetPermissions(fileMode))}
	locked, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the data folder %s: %w", path, err)
	}
	if !locked {
		return nil, fmt.Errorf("%w: %s is used by %s; stop that process, or choose another folder", ErrInUse, path, d.owner())
	}
	owner := fmt.Sprintf("%s (pid %d)", process, os.Getpid())
	if err := os.WriteFile(d.File(ownerFile), []byte(owner), fileMode); err != nil {
		return nil, errors.Join(fmt.Errorf("record the owner of the data folder: %w", err), d.Close())
	}
	return d, nil
}

// owner names the process that holds the lock, as far as it is known.
func (d *Dir) owner() string {
	text, err := os.ReadFile(d.File(ownerFile))
	if err != nil || len(text) == 0 || len(text) > maxOwner {
		return "another process"
	}
	return strings.ToValidUTF8(string(text), "")
}

// File returns the path of a file in the folder.
func (d *Dir) File(name string) string { return filepath.Join(d.path, name) }

// Secret returns the random secret that the folder keeps under a name. The first call creates it.
func (d *Dir) Secret(name string) ([]byte, error) {
	kept, err := os.ReadFile(d.File(name))
	if err == nil && len(kept) > 0 {
		return kept, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the secret in %s: %w", d.File(name), err)
	}
	fresh := []byte(rand.Text())
	if err := os.WriteFile(d.File(name), fresh, fileMode); err != nil {
		return nil, fmt.Errorf("store a secret in %s: %w", d.File(name), err)
	}
	return fresh, nil
}

// PrivateFile creates the file at path if necessary, and makes it and the files that SQLite keeps with it readable by
// their user alone. SQLite gives the files that it creates later the mode of the database.
func PrivateFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return fmt.Errorf("create a private file: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("create a private file: %w", err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Chmod(name, fileMode); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make %s private: %w", name, err)
		}
	}
	return nil
}

// Close releases the folder for other processes.
func (d *Dir) Close() error {
	if err := d.lock.Close(); err != nil {
		return fmt.Errorf("release the data folder %s: %w", d.path, err)
	}
	return nil
}
