// Package workspace shows a folder of the gateway's machine to people who pick files from it: names and sizes, never
// what is in a file. Nothing outside the folder is seen, not by "..", and not by a symbolic link that leads there.
package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNotFound says that there is nothing at a path that may be seen.
var ErrNotFound = errors.New("there is nothing at this path of the workspace")

// maxEntries bounds what is listed of one folder.
const maxEntries = 1000

// Workspace is a folder, or none: its zero value is empty. It is safe for concurrent use.
type Workspace struct {
	root *os.Root
	name string
}

// Open returns the workspace of a folder; an empty one for "". Close it.
func Open(dir string) (*Workspace, error) {
	if dir == "" {
		return &Workspace{}, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open workspace: %w", err)
	}
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open workspace: %w", err), root.Close())
	}
	return &Workspace{root, filepath.Base(full)}, nil
}

// Close lets go of the folder.
func (w *Workspace) Close() error {
	if w.root == nil {
		return nil
	}
	return w.root.Close()
}

// Name is the last part of the folder's path; "" for an empty workspace.
func (w *Workspace) Name() string { return w.name }

// Kind says what an item is.
type Kind string

// The kinds of items.
const (
	File      Kind = "file"
	Directory Kind = "directory"
)

// Entry is a file or a folder with what is known of it.
type Entry struct {
	Kind     Kind
	Name     string
	Path     string // in the workspace, with '/' and without one in front; "." is the workspace itself
	Size     int64
	Modified time.Time
	Entries  []Entry // of a folder that was asked for: folders first, then by name
}

// Look returns what is at a path, or ErrNotFound. Paths begin at the workspace, with or without a '/' in front.
func (w *Workspace) Look(name string) (Entry, error) {
	if w.root == nil {
		return Entry{}, ErrNotFound
	}
	name = clean(name)
	info, err := w.root.Stat(name)
	if err != nil {
		return Entry{}, ErrNotFound // also what lies outside, so that nobody can tell which
	}
	e, ok := entry(name, info)
	if !ok {
		return Entry{}, ErrNotFound
	}
	if e.Kind == Directory {
		e.Entries, err = w.list(name)
	}
	return e, err
}

// clean makes a path relative. One that leads outside stays so, and the root refuses it.
func clean(name string) string {
	name = path.Clean(strings.TrimLeft(strings.ReplaceAll(name, `\`, "/"), "/"))
	return cmp.Or(name, ".")
}

// entry describes what is there. Devices, sockets and the like are not shown.
func entry(name string, info fs.FileInfo) (Entry, bool) {
	e := Entry{Kind: File, Name: path.Base(name), Path: name, Size: info.Size(), Modified: info.ModTime()}
	if info.IsDir() {
		e.Kind = Directory
	}
	return e, info.IsDir() || info.Mode().IsRegular()
}

func (w *Workspace) list(name string) ([]Entry, error) {
	dir, err := w.root.Open(name)
	if err != nil {
		return nil, ErrNotFound
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxEntries)
	if err != nil && len(names) == 0 {
		return []Entry{}, nil // it is empty, or may not be read
	}
	entries := make([]Entry, 0, len(names))
	for _, one := range names {
		at := path.Join(name, one)
		info, err := w.root.Stat(at)
		if err != nil {
			continue // gone meanwhile, or a link that leads outside
		}
		if e, ok := entry(at, info); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) // "directory" comes before "file"
	})
	return entries, nil
}
