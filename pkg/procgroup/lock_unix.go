//go:build unix

package procgroup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// lockPause is the wait before a lock is tried again.
const lockPause = 50 * time.Millisecond

// Lock keeps a second group off. The system releases it when this process and the guard of its group have ended.
type Lock struct{ file *os.File }

// Acquire waits for the lock that the names stand for, and fails with ErrLocked when ctx is done before. The lock counts
// on this machine and among processes of this user.
func Acquire(ctx context.Context, names ...string) (*Lock, error) {
	dir, err := lockDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	path := filepath.Join(dir, hex.EncodeToString(sum[:16])+".lock")
	for {
		lock, err := try(path)
		if err == nil || !errors.Is(err, ErrLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(lockPause):
		}
	}
}

// try takes the lock if it is free. A file that was removed meanwhile, as Release does, locks nothing.
func try(path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) || err == nil && !current(file) {
		err = ErrLocked
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{file}, nil
}

// current reports whether the file still has its name.
func current(file *os.File) bool {
	named, err := os.Stat(file.Name())
	if err != nil {
		return false
	}
	open, err := file.Stat()
	return err == nil && os.SameFile(named, open)
}

// lockDir is a folder of this user alone, outside of every workspace.
func lockDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "agentbus-locks-"+strconv.Itoa(os.Getuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make the folder of locks: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("look at the folder of locks: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o077 != 0 || !ok || int(stat.Uid) != os.Getuid() {
		return "", fmt.Errorf("%s must be a folder that only this user may read; remove it", dir)
	}
	return dir, nil
}

// Release gives the lock up. A group that has the lock does it.
func (l *Lock) Release() {
	if l != nil {
		_ = os.Remove(l.file.Name()) // while it is locked, so that no process holds a lock on a removed file
		_ = l.file.Close()           // releases it
	}
}
