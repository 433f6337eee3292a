package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

func TestArchivesAreReproducible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "program")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho it runs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.tar.gz", "a.zip"} {
		var first []byte
		for i := range 2 {
			later := time.Now().Add(time.Duration(i) * time.Hour)
			if err := os.Chtimes(script, later, later); err != nil {
				t.Fatal(err)
			}
			files := []file{{"program", script, 0o755}, {"LICENSE", "../../LICENSE", 0o644}}
			if err := writeArchive(filepath.Join(dir, name), "agentbus_v1", files); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 && !bytes.Equal(text, first) {
				t.Errorf("%s: the second archive differs", name)
			}
			first = text
		}
	}
	if runtime.GOOS == "windows" {
		return // it has no tar and shell
	}
	unpack := exec.CommandContext(t.Context(), "sh", "-c", "tar -xzf a.tar.gz && test -f agentbus_v1/LICENSE && agentbus_v1/program")
	unpack.Dir = dir
	if out, err := unpack.CombinedOutput(); err != nil || string(out) != "it runs\n" {
		t.Errorf("got %q, %v", out, err)
	}
}
