// Package workspace shows a folder of the gateway's machine to users who select files: names and sizes, never contents.
// Paths outside the folder are not accessible, neither by ".." nor through a symbolic link.
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

// ErrNotFound is returned for a path that does not exist or is not accessible.
var ErrNotFound = errors.New("there is nothing at this path of the workspace")

// maxEntries limits the entries of one folder.
const maxEntries = 1000

// Workspace is a folder. Its zero value is empty. It is safe for concurrent use.
type Workspace struct {
	root *os.Root
	name string
}

// Open returns the workspace of a folder, or an empty one for "". The caller must close it.
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

// Close closes the folder.
func (w *Workspace) Close() error {
	if w.root == nil {
		return nil
	}
	return w.root.Close()
}

// Name is the last part of the folder's path; "" for an empty workspace.
func (w *Workspace) Name() string { return w.name }

// Kind is the kind of an item.
type Kind string

// The kinds of items.
const (
	File      Kind = "file"
	Directory Kind = "directory"
)

// Entry describes a file or a folder.
type Entry struct {
	Kind     Kind
	Name     string
	Path     string // relative to the workspace, with '/' as separator; "." is the workspace itself
	Size     int64
	Modified time.Time
	Entries  []Entry // of the requested folder: folders first, then by name
}

// Lookup returns the entry of a path, or ErrNotFound. Paths are relative to the workspace, with or without a leading
// '/'.
func (w *Workspace) Lookup(name string) (Entry, error) {
	if w.root == nil {
		return Entry{}, ErrNotFound
	}
	name = clean(name)
	info, err := w.root.Stat(name)
	if err != nil {
		return Entry{}, ErrNotFound // also for paths outside: both cases must look the same
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

// clean makes a path relative. A path that leads outside is refused by the root later.
func clean(name string) string {
	name = path.Clean(strings.TrimLeft(strings.ReplaceAll(name, `\`, "/"), "/"))
	return cmp.Or(name, ".")
}

// entry describes an item. Devices, sockets and similar items are omitted.
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
		return []Entry{}, nil // empty, or not readable
	}
	entries := make([]Entry, 0, len(names))
	for _, one := range names {
		at := path.Join(name, one)
		info, err := w.root.Stat(at)
		if err != nil {
			continue // removed meanwhile, or a link that leads outside
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
