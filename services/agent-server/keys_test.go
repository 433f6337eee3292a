package agentserver_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
)

const rotatedKey = "a-second-key-of-the-agent"

func TestKeysAreHashedInPrivateFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := envAt(dir)
	if err := os.Mkdir(env.DataDir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := open(t, setup{env: env})
	if _, err := s.Rotate(t.Context(), remoteagent.Rotation{Key: rotatedKey}); err != nil {
		t.Fatal(err)
	}
	assertPrivate(t, env.DataDir)
	s.stop()
	assertPrivate(t, env.DataDir)
	again := open(t, setup{env: env})
	for _, one := range []string{key, rotatedKey} {
		if _, err := remoteagent.NewClient(again.url, one).Health(t.Context()); err != nil {
			t.Errorf("after a restart, key %s: %v", one, err)
		}
	}
}

func TestKeysOfAnEarlierVersionAreHashed(t *testing.T) {
	t.Parallel()
	env := envAt(t.TempDir())
	open(t, setup{env: env}).stop()
	db, err := sql.Open("sqlite", filepath.Join(env.DataDir, "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "INSERT INTO plain_keys (secret, added_at) VALUES ($1, $2)", rotatedKey, time.Now().UnixMilli())
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := open(t, setup{env: env})
	if _, err := remoteagent.NewClient(s.url, rotatedKey).Health(t.Context()); err != nil {
		t.Errorf("the key of an earlier version: %v", err)
	}
	s.stop()
	assertPrivate(t, env.DataDir)
}

// assertPrivate checks that only the user of the process can read the files, and that they hold no key.
func assertPrivate(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files in %s, %v", len(files), dir, err)
	}
	for _, path := range append(files, dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode&0o077 != 0 {
			t.Errorf("%s: got mode %o, want none for group and others", filepath.Base(path), mode)
		}
		if info.IsDir() {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range []string{key, rotatedKey} {
			if strings.Contains(string(text), one) {
				t.Errorf("%s holds the key %s in plain text", filepath.Base(path), one)
			}
		}
	}
}
