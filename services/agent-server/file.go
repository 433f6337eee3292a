package agentserver

import (
	"context"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// openFile opens a regular file below the folder that a task works in. Links that leave the folder lead nowhere. Without a root
// tasks may work in any folder of the machine, and no file is returned.
func (s *Server) openFile(ctx context.Context, taskID, name string) (*os.File, int64, error) {
	if s.settings.OpenFolder == nil {
		return nil, 0, remoteagent.Refuse(http.StatusNotFound, remoteagent.FileNotFound,
			"this agent returns no files; its operator sets AGENT_ROOT, the folder that tasks cannot leave")
	}
	task, err := s.store.Task(ctx, taskID)
	if err != nil {
		return nil, 0, err
	}
	folder, err := s.settings.OpenFolder(task.Cwd)
	if err != nil {
		return nil, 0, noFile(name)
	}
	defer func() { _ = folder.Close() }()                                                     // it is only read
	file, err := folder.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe without a writer would block
	if err != nil {
		return nil, 0, noFile(name)
	}
	info, err := file.Stat()
	if err == nil {
		err = isDownload(info, name)
	}
	if err != nil {
		_ = file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}

func isDownload(info fs.FileInfo, name string) error {
	switch {
	case info.IsDir():
		return remoteagent.Refuse(http.StatusBadRequest, apierr.InvalidMessageFormat, "%.200q is a folder; name a file in it", name)
	case !info.Mode().IsRegular():
		return noFile(name)
	case info.Size() > remoteagent.MaxFile:
		return remoteagent.Refuse(http.StatusRequestEntityTooLarge, apierr.MessageTooLarge,
			"%.200q has %d bytes; a file of at most %d is returned", name, info.Size(), remoteagent.MaxFile)
	default:
		return nil
	}
}

// noFile is the same for a file that does not exist and for one outside: files outside are not disclosed.
func noFile(name string) error {
	return remoteagent.Refuse(http.StatusNotFound, remoteagent.FileNotFound,
		"the task's folder has no file %.200q; filesModified of the task lists files", name)
}
