package agentserver_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// The files that a task has made are downloaded from its folder, and no others.
func TestFilesOfATaskAreDownloaded(t *testing.T) {
	t.Parallel()
	s, outside := open(t, setup{}), t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(s.root(), "app/sub dir"), 0o700),
		os.WriteFile(filepath.Join(s.root(), "secret"), []byte("of another folder"), 0o600),
		os.WriteFile(filepath.Join(outside, "secret"), []byte("of another place"), 0o600),
		os.Symlink(filepath.Join(outside, "secret"), filepath.Join(s.root(), "app/link")),
		os.Symlink("../secret", filepath.Join(s.root(), "app/up")),
		os.WriteFile(filepath.Join(s.root(), "app/sub dir/b #1.bin"), bytes.Repeat([]byte{0xff}, 300<<10), 0o600),
		os.WriteFile(filepath.Join(s.root(), "app/large"), nil, 0o600),
		os.Truncate(filepath.Join(s.root(), "app/large"), remoteagent.MaxFile+1),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	task := s.finish(s.create(remoteagent.Assignment{
		Prompt: `/tool write_file {"path":"a.go","content":"package a"}`, Cwd: "app", PermissionMode: remoteagent.PermitEdits,
	}).TaskID)
	tests := []struct {
		name, file string
		want       int
		size       int64
	}{
		{"a file that the task has written", task.FilesModified[0], http.StatusOK, 9},
		{"a file in a folder, with an unusual name", "sub dir/b #1.bin", http.StatusOK, 300 << 10},
		{"a file that does not exist", "b.go", http.StatusNotFound, 0},
		{"a folder", "sub dir", http.StatusBadRequest, 0},
		{"a file of the folder above", "../secret", http.StatusNotFound, 0},
		{"a link to the folder above", "up", http.StatusNotFound, 0},
		{"a link to another place", "link", http.StatusNotFound, 0},
		{"an absolute path", "/etc/passwd", http.StatusNotFound, 0},
		{"a file that is too large", "large", http.StatusRequestEntityTooLarge, 0},
	}
	for _, tt := range tests {
		body, size, err := s.File(t.Context(), task.TaskID, tt.file)
		if err != nil {
			if got := refusal(err); got.HTTP != tt.want {
				t.Errorf("%s: got %v, want %d", tt.name, err, tt.want)
			}
			continue
		}
		text, err := io.ReadAll(body)
		_ = body.Close()
		if err != nil || tt.want != http.StatusOK || size != tt.size || int64(len(text)) != tt.size {
			t.Errorf("%s: got %d of %d bytes, %v, want %d and %d bytes", tt.name, len(text), size, err, tt.want, tt.size)
		}
	}
	_, _, header := s.raw(http.MethodGet, "/tasks/"+task.TaskID+"/files/a.go", "", nil)
	if header.Get("Content-Type") != "application/octet-stream" || header.Get("Content-Disposition") != "attachment" {
		t.Errorf("got the headers %v, want a download", header)
	}
}
