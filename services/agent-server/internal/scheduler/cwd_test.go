package scheduler

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/agentbus/agentbus/pkg/remoteagent"
)

func TestFoldersThatTasksMayUse(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root, outside := filepath.Join(base, "root"), filepath.Join(base, "root-beyond")
	for _, dir := range []string{filepath.Join(root, "project", "src"), outside} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"inside": "project", "out": outside, "up": "../.."} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := newFolders(root)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, cwd, want string }{ // want "" = refused
		{"none", "", root},
		{"the root itself", root, root},
		{"a relative path", "project/src", filepath.Join(root, "project", "src")},
		{"an absolute path", filepath.Join(root, "project"), filepath.Join(root, "project")},
		{"a path with dots that stays inside", "project/../project", filepath.Join(root, "project")},
		{"a link that stays inside", "inside/src", filepath.Join(root, "project", "src")},
		{"a path that leaves the root", "..", ""},
		{"a folder whose name begins with the root's", outside, ""},
		{"a link that leaves the root", "out", ""},
		{"a link to a folder above", "up", ""},
		{"a folder that does not exist", "missing", ""},
		{"a folder outside that does not exist", filepath.Join(base, "missing"), ""},
		{"a file", "file", ""},
		{"a zero byte", "a\x00b", ""},
	}
	for _, test := range tests {
		got, err := f.resolve(test.cwd)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: got %q and %v, want %q", test.name, got, err, test.want)
		}
		if refusal, ok := errors.AsType[*remoteagent.Refusal](err); err != nil && (!ok || refusal.Code != remoteagent.InvalidCwd) {
			t.Errorf("%s: got %v, want the code %s", test.name, err, remoteagent.InvalidCwd)
		}
	}
}

func TestRootMustBeAFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{file, filepath.Join(t.TempDir(), "missing")} {
		if f, err := newFolders(root); err == nil {
			t.Errorf("%s: got %+v, want an error", root, f)
		}
	}
	f, err := newFolders("")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if got, err := f.resolve(dir); err != nil || filepath.Base(got) != filepath.Base(dir) {
		t.Errorf("without a root: got %q and %v, want any folder", got, err)
	}
}
