package api

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

// file serves GET /tasks/:id/files/:path, a file of the folder that the task works in. It is for downloading alone: the content is
// the agent's, and a browser must not show it as a page of this server.
func (a *API) file(w http.ResponseWriter, r *http.Request) error {
	task, err := a.task(r)
	if err != nil {
		return err
	}
	file, size, err := a.deps.OpenFile(r.Context(), task.TaskID, r.PathValue("path"))
	if err != nil {
		return err
	}
	defer file.Close()
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Disposition", "attachment")
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if !a.copyFile(w, file, size) {
		panic(http.ErrAbortHandler) // the file has become shorter, or the client takes nothing
	}
	return nil
}

// copyFile writes size bytes. A client that takes nothing for writeTime is disconnected.
func (a *API) copyFile(w http.ResponseWriter, file *os.File, size int64) bool {
	connection := http.NewResponseController(w)
	for left := size; left > 0; {
		_ = connection.SetWriteDeadline(time.Now().Add(writeTime))
		n, err := io.CopyN(w, file, min(left, pieceSize))
		if err != nil {
			return false
		}
		left -= n
	}
	return true
}

// pieceSize is how much of a file a client must take within writeTime, in bytes.
const pieceSize = 256 << 10
