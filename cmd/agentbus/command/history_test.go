package command

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestHistoryIsRebuiltWhileDevRuns(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := own(t, "--data="+data)
	execute(t, 0, s.at("chat", "-m", "/say hello")...)
	out, _ := execute(t, 0, "history", "rebuild", "--wait", "--data="+data)
	if out != "rebuild done\n" {
		t.Errorf("got %q", out)
	}
	if out, _ := execute(t, 0, s.at("threads")...); !strings.Contains(out, "/say hello") {
		t.Errorf("after the rebuild: got threads %q", out)
	}
}

func TestARebuildNeedsADatabaseThatExists(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"--data=" + t.TempDir(), "--database=sqlite:" + filepath.Join(t.TempDir(), "x.db")} {
		if _, message := execute(t, 1, "history", "rebuild", where); !strings.Contains(message, "does not exist") {
			t.Errorf("%s: got %q", where, message)
		}
	}
}
