// Package files has the tools by which agents read, list, search, write and edit files in one folder. Neither ".." nor
// a symbolic link leads out of it. By default each thread has a separate folder in it.
//
// The operating system enforces the border (os.Root), not a comparison of paths. Files are replaced atomically, and
// writing needs an approval.
package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
)

const (
	timeout = 30 * time.Second
	// DefaultMaxFile is how large a file may be that is read or written.
	DefaultMaxFile = 1 << 20
	folderMode     = 0o700
	fileMode       = 0o600
)

// Options say where the tools work.
type Options struct {
	Root    string // an absolute path; it is created
	Shared  bool   // all threads work in Root itself
	MaxFile int64  // bytes; 0 = DefaultMaxFile
	// Open opens the folder of a call instead of Root: for a caller that has more to say about how.
	Open func() (*os.Root, error)
}

// Reading returns the tools that change nothing: list_files, read_file, search_files.
func Reading(o Options) []tool.Tool {
	w := newWorkspace(o)
	return []tool.Tool{w.list(), w.read(), w.search()}
}

// Writing returns the tools that change files: edit_file, write_file. A person allows each call.
func Writing(o Options) []tool.Tool {
	w := newWorkspace(o)
	return []tool.Tool{w.edit(), w.write()}
}

// workspace opens the folder of a call.
type workspace struct{ Options }

func newWorkspace(o Options) workspace {
	if o.MaxFile == 0 {
		o.MaxFile = DefaultMaxFile
	}
	return workspace{o}
}

// define makes a tool that works in the folder of its call.
func define[In any](w workspace, spec tool.Spec, schema string, do func(context.Context, folder, In) (tool.Result, error)) tool.Tool {
	spec.Schema, spec.Timeout = json.RawMessage(schema), timeout
	return tool.Func(spec, func(ctx context.Context, in In, call tool.Call) (tool.Result, error) {
		root, err := w.open(call.For)
		if err != nil {
			return tool.Result{}, err
		}
		defer func() { _ = root.Close() }() // nothing was written through it that Close could lose
		return do(ctx, folder{Root: root, max: w.MaxFile}, in)
	})
}

// open opens the folder of a thread, which it creates.
func (w workspace) open(caller tool.Caller) (*os.Root, error) {
	if w.Open != nil {
		return w.Open()
	}
	if err := os.MkdirAll(w.Root, folderMode); err != nil {
		return nil, fmt.Errorf("open the files: %w", err)
	}
	root, err := os.OpenRoot(w.Root)
	if err != nil || w.Shared {
		return root, err
	}
	defer func() { _ = root.Close() }() // only a way to the folder in it
	if !id.Valid(caller.Tenant) || !id.Valid(caller.ThreadID) {
		return nil, apierr.New(apierr.ToolError, "each thread has separate files, and this call belongs to no thread")
	}
	own := filepath.Join(caller.Tenant, caller.ThreadID)
	if err := root.MkdirAll(own, folderMode); err != nil {
		return nil, fmt.Errorf("open the files of thread %s: %w", caller.ThreadID, err)
	}
	return root.OpenRoot(own)
}

// folder is where one call works.
type folder struct {
	*os.Root
	max int64
}

// text reads a file of text.
func (f folder) text(name string) (string, fs.FileInfo, error) {
	file, err := f.OpenFile(clean(name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe without a writer would block
	if err != nil {
		return "", nil, explain(name, err)
	}
	defer func() { _ = file.Close() }() // it was read
	info, err := file.Stat()
	if err != nil {
		return "", nil, explain(name, err)
	}
	if !info.Mode().IsRegular() {
		return "", nil, apierr.New(apierr.ToolError, "%.200q is not a file; list_files lists the files", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, f.max+1))
	if err != nil {
		return "", nil, explain(name, err)
	}
	if int64(len(data)) > f.max {
		return "", nil, apierr.New(apierr.ToolError, "%.200q is larger than the %d bytes that can be read", name, f.max)
	}
	if !utf8.Valid(data) {
		return "", nil, apierr.New(apierr.ToolError, "%.200q is not a text", name)
	}
	return string(data), info, nil
}

// replace writes a file atomically: a concurrent reader gets the old or the new content.
func (f folder) replace(name, content string, mode fs.FileMode) error {
	if int64(len(content)) > f.max {
		return tooLarge(name, len(content), f.max)
	}
	target := clean(name)
	if info, err := f.Lstat(target); err == nil && !info.Mode().IsRegular() {
		return apierr.New(apierr.ToolError, "%.200q is there and no file; choose another path", name)
	}
	if err := f.MkdirAll(path.Dir(target), folderMode); err != nil {
		return explain(name, err)
	}
	draft := path.Join(path.Dir(target), "."+id.New("draft"))
	if err := f.create(draft, content, mode); err != nil {
		_ = f.Remove(draft) // the error before it says more
		return explain(name, err)
	}
	if err := f.Rename(draft, target); err != nil {
		_ = f.Remove(draft) // as above
		return explain(name, err)
	}
	return nil
}

func tooLarge(name string, size int, most int64) error {
	return apierr.New(apierr.ToolError, "the content of %.200q would have %d bytes; a file has at most %d", name, size, most)
}

func (f folder) create(name, content string, mode fs.FileMode) error {
	file, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, content)
	return errors.Join(err, file.Sync(), file.Close())
}

// clean is a path without what means nothing. What leads out of the folder is left for the system to refuse.
func clean(name string) string {
	if name == "" {
		return "."
	}
	return path.Clean(name)
}

// explain converts a system error to one for the model, without the location of the folder.
func explain(name string, err error) error {
	if path.IsAbs(name) {
		return apierr.Wrap(err, apierr.ToolError, "%.200q is not a valid path; write it relative to the workspace, such as notes/today.md", name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return apierr.Wrap(err, apierr.ToolError, "there is no %.200q; list_files shows what there is", name)
	}
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	if failed, ok := errors.AsType[*os.LinkError](err); ok {
		err = failed.Err
	}
	return apierr.Wrap(err, apierr.ToolError, "%.200q: %v", name, err)
}
