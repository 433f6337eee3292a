package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/workspace"
)

// folder makes a workspace with a few files, and a secret outside.
func folder(t *testing.T) *workspace.Workspace {
	t.Helper()
	base := t.TempDir()
	dir := filepath.Join(base, "project")
	for name, text := range map[string]string{
		"secret.txt":                         "outside",
		"project/readme.md":                  "hello",
		"project/main.go":                    "package main",
		"project/cmd/main/main.go":           "package main",
		"project/cmd/domain.txt":             "",
		"project/a/b/c/d/e/deep.txt":         "",
		"project/a/b/c/d/e/f/too-deep.txt":   "",
		"project/.git/main":                  "hidden",
		"project/node_modules/main/index.js": "hidden",
	} {
		path := filepath.Join(base, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"out": "../secret.txt", "up": "..", "loop": ".", "inside": "readme.md", "absolute": filepath.Join(base, "secret.txt"),
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	w, err := workspace.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func names(entries []workspace.Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Path)
	}
	return all
}

func TestNothingOutsideIsSeen(t *testing.T) {
	t.Parallel()
	w := folder(t)
	for _, path := range []string{
		"..", "../secret.txt", "/../secret.txt", "cmd/../../secret.txt", "out", "up", "up/secret.txt", "absolute", "loop/up/secret.txt",
		`..\secret.txt`, "/etc/passwd", "nothing", "readme.md/x", "a\x00b",
	} {
		if e, err := w.Lookup(path); !errors.Is(err, workspace.ErrNotFound) {
			t.Errorf("%q: got %+v, %v", path, e, err)
		}
	}
	root, err := w.Lookup("/")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(root.Entries), []string{".git", "a", "cmd", "loop", "node_modules", "inside", "main.go", "readme.md"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: links that lead outside are not listed", got, want)
	}
}

func TestWhatIsThereIsDescribed(t *testing.T) {
	t.Parallel()
	w := folder(t)
	for _, path := range []string{"readme.md", "/readme.md", "//readme.md", "./cmd/../readme.md"} {
		e, err := w.Lookup(path)
		if err != nil || e.Kind != workspace.File || e.Name != "readme.md" || e.Path != "readme.md" || e.Size != 5 || e.Modified.IsZero() {
			t.Errorf("%q: got %+v, %v", path, e, err)
		}
	}
	e, err := w.Lookup("cmd")
	if err != nil || e.Kind != workspace.Directory || !slices.Equal(names(e.Entries), []string{"cmd/main", "cmd/domain.txt"}) {
		t.Errorf("got %+v, %v", e, err)
	}
	if w.Name() != "project" {
		t.Errorf("got the name %q", w.Name())
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	w := folder(t)
	tests := []struct {
		does  string
		words string
		kind  workspace.Kind
		want  []string
	}{
		{"the best match comes first", "main", "", []string{"cmd/main", "main.go", "cmd/main/main.go", "cmd/domain.txt"}},
		{"case does not matter", "README", "", []string{"readme.md"}},
		{"only folders", "main", workspace.Directory, []string{"cmd/main"}},
		{"only files", "cmd/main", workspace.File, []string{"cmd/main/main.go"}},
		{"not deeper than five folders", "deep.txt", "", []string{"a/b/c/d/e/deep.txt"}},
		{"no words list the folder itself", "", "", []string{"a", "cmd", "main.go", "readme.md"}},
		{"nothing fits", "nothing", "", nil},
	}
	for _, test := range tests {
		found, err := w.Search(t.Context(), test.words, test.kind)
		if err != nil || !slices.Equal(names(found), test.want) {
			t.Errorf("%s: got %v, %v, want %v", test.does, names(found), err, test.want)
		}
	}
}

func TestWithoutAFolderNothingIsSeen(t *testing.T) {
	t.Parallel()
	w, err := workspace.Open("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Lookup("/"); !errors.Is(err, workspace.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if found, err := w.Search(t.Context(), "a", ""); err != nil || len(found) > 0 || w.Name() != "" || w.Close() != nil {
		t.Errorf("got %v, %v", found, err)
	}
	if _, err := workspace.Open(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("a folder that is not there is an error")
	}
}
