package scheduler

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// folders are those that tasks may work in: the root and all below it, wherever links lead. Without a root any folder
// will do.
type folders struct {
	root string // real path; "" = none
	home string // where tasks work that do not say
}

func newFolders(root string) (folders, error) {
	home, err := os.Getwd()
	if root != "" {
		home, err = filepath.Abs(root)
	}
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	if err == nil {
		err = isFolder(home)
	}
	if err != nil {
		return folders{}, fmt.Errorf("folder that tasks work in (AGENT_ROOT): %w", err)
	}
	if root == "" {
		return folders{home: home}, nil
	}
	return folders{root: home, home: home}, nil
}

func isFolder(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", path)
	}
	return nil
}

// resolve gives the real path of the folder that a task asks for; "" asks for the usual one. A relative path begins there.
func (f folders) resolve(cwd string) (string, error) {
	if cwd == "" {
		return f.home, nil
	}
	named := filepath.Clean(cwd)
	if !filepath.IsAbs(cwd) {
		named = filepath.Join(f.home, cwd)
	}
	path, err := filepath.EvalSymlinks(named)
	if err == nil && !f.has(path) || err != nil && !f.has(named) { // folders outside are not disclosed
		return "", refuseCwd("cwd %.200q leaves the folder that tasks of this agent work in; name one inside", cwd)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", refuseCwd("cwd %.200q does not exist on this machine", cwd)
	}
	if err != nil {
		return "", refuseCwd("cwd %.200q cannot be used on this machine", cwd)
	}
	if isFolder(path) != nil {
		return "", refuseCwd("cwd %.200q is not a folder", cwd)
	}
	return path, nil
}

// has reports whether a real path lies within the root.
func (f folders) has(path string) bool {
	if f.root == "" {
		return true
	}
	inside, err := filepath.Rel(f.root, path)
	return err == nil && filepath.IsLocal(inside)
}

func refuseCwd(format string, args ...any) error {
	return remoteagent.Refuse(http.StatusBadRequest, remoteagent.InvalidCwd, format, args...)
}
