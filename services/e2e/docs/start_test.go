package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFirstAgent(t *testing.T) {
	t.Parallel()
	url := serve(t, "", binaries)
	p := read(t, "start.md")
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		need(t, "python3")
		dir := t.TempDir()
		p.write(dir, "first.py")
		got := shell(t, dir, url, "", p.blocks("`first.py`")[1])
		wantTexts(t, got, "stop", "[calculator: 6*7 = 42]", "The result is above.", "stop")
	})
	t.Run("TypeScript", func(t *testing.T) {
		t.Parallel()
		need(t, "npx")
		dir := t.TempDir()
		p.write(dir, "first.mts")
		_, earlier, _ := strings.Cut(p.blocks("`first.mts`")[1], "\n") // the command for every version of Node.js
		got := shell(t, dir, url, "", earlier)
		wantTexts(t, got, "thread thr_", "[calculator: 6*7 = 42]", "The result is above.", "stop")
	})
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "first")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p.write(dir, "main.go")
		clone, err := filepath.Abs(root)
		if err != nil {
			t.Fatal(err)
		}
		commands := strings.ReplaceAll(p.block("with the path of your clone"), "/path/to/agentbus", clone)
		got := shell(t, dir, url, "", commands)
		wantTexts(t, got, "thread thr_", "[calculator: 6*7 = 42]", "The result is above.", "stop")
	})
}

func TestFirstConfiguration(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := read(t, "start.md")
	p.write(dir, "agents.yaml")
	url := serve(t, filepath.Join(dir, "agents.yaml"), binaries)
	_, request, found := strings.Cut(p.blocks("`agents.yaml`")[1], "\n")
	if !found {
		t.Fatal("the page has no request after its command")
	}
	got := shell(t, dir, url, "", strings.ReplaceAll(request, "http://127.0.0.1:8080", url))
	wantTexts(t, got, "event: thinking", "a short greeting is enough", "event: text", "hello", "event: done")
}
