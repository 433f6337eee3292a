package datadir_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/datadir"
)

func TestASecondOwnerIsRefusedByNameAndPid(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "data")
	first, err := datadir.Open(path, "agentbus dev")
	if err != nil {
		t.Fatal(err)
	}
	_, err = datadir.Open(path, "agentbus dev")
	if !errors.Is(err, datadir.ErrInUse) {
		t.Fatalf("got %v, want ErrInUse", err)
	}
	for _, want := range []string{path, "agentbus dev", strconv.Itoa(os.Getpid())} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want it to name %q", err, want)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := datadir.Open(path, "agentbus dev")
	if err != nil {
		t.Fatalf("after Close: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestAWideFolderBecomesPrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no permission bits")
	}
	path := t.TempDir()
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := datadir.Open(path, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := dir.Secret("secret"); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(path, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, path) {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s: got mode %o, want none for group and others", filepath.Base(file), mode)
		}
	}
}

func TestASecretIsKept(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	var secrets []string
	for range 2 {
		dir, err := datadir.Open(path, "test")
		if err != nil {
			t.Fatal(err)
		}
		secret, err := dir.Secret("secret")
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, string(secret))
		if err := dir.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if secrets[0] != secrets[1] || len(secrets[0]) < 16 {
		t.Errorf("got %q, want the same secret of at least 16 characters twice", secrets)
	}
}
