package api

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/auth"
)

// file serves GET /api/agents/{id}/tasks/{taskId}/files/{path}: a file of the folder that the task works in, for downloading alone.
func (a *API) file(w http.ResponseWriter, r *http.Request) {
	p, err := a.principal(r, auth.ScopeRead)
	if err != nil {
		a.fail(w, r, a.guessed(r, err))
		return
	}
	file, size, err := a.tasks.File(r.Context(), ref(r, p), r.PathValue("path"))
	if err != nil {
		a.fail(w, r, err)
		return
	}
	defer file.Close()
	header := w.Header()
	header.Set("Content-Type", "application/octet-stream")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Disposition", "attachment")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	w.WriteHeader(http.StatusOK)
	connection := http.NewResponseController(w)
	for left := size; left > 0; {
		_ = connection.SetWriteDeadline(time.Now().Add(writeTimeout))
		n, err := io.CopyN(w, file, min(left, pieceSize))
		if err != nil {
			panic(http.ErrAbortHandler) // the rest is missing
		}
		left -= n
	}
}

// pieceSize is how much of a file a client must take within writeTimeout, in bytes.
const pieceSize = 256 << 10
