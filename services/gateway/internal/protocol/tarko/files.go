package tarko

import (
	"errors"
	"net/http"
	"path"
	"time"

	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/tarko/workspace"
)

// maxPaths limits the paths of one call.
const maxPaths = 100

// listing describes a path of the workspace: a file, or a directory with its files.
type listing struct {
	Type     workspace.Kind `json:"type"`
	Name     string         `json:"name,omitempty"`
	Size     *int64         `json:"size,omitempty"`
	Modified *time.Time     `json:"modified,omitempty"`
	Path     string         `json:"path"`
	Files    *[]file        `json:"files,omitempty"` // of a directory
}

type file struct {
	Name        string    `json:"name"`
	IsDirectory bool      `json:"isDirectory"`
	Size        int64     `json:"size"`
	Modified    time.Time `json:"modified"`
	Path        string    `json:"path"`
}

// getFiles returns a folder or file of the workspace.
func (s *Server) getFiles(x *protocol.Exchange) error {
	if _, err := s.mustFind(x, x.Query().Get("sessionId")); err != nil {
		return err
	}
	entry, err := s.workspace(x).Lookup(x.Query().Get("path"))
	if errors.Is(err, workspace.ErrNotFound) {
		return x.Reply(http.StatusNotFound, failure{"Path not found"})
	}
	if err != nil {
		return err
	}
	if entry.Kind == workspace.File {
		return x.Reply(http.StatusOK, listing{
			Type: entry.Kind, Name: entry.Name, Size: &entry.Size, Modified: &entry.Modified, Path: withSlash(entry.Path),
		})
	}
	files := make([]file, 0, len(entry.Entries))
	for _, e := range entry.Entries {
		files = append(files, file{e.Name, e.Kind == workspace.Directory, e.Size, e.Modified, withSlash(e.Path)})
	}
	return x.Reply(http.StatusOK, listing{Type: entry.Kind, Path: withSlash(entry.Path), Files: &files})
}

// workspace returns the workspace of the caller's tenant, an empty one without configuration.
func (s *Server) workspace(x *protocol.Exchange) *workspace.Workspace {
	if own, ok := s.workspaces[x.Principal().Tenant]; ok {
		return own
	}
	return new(workspace.Workspace)
}

// withSlash returns a path as clients see it: the workspace is their root, and its path on this machine is hidden.
func withSlash(name string) string { return path.Join("/", name) }

// item is a result of a search.
type item struct {
	Name         string         `json:"name"`
	Path         string         `json:"path"`
	Type         workspace.Kind `json:"type"`
	RelativePath string         `json:"relativePath"`
}

// getSearch finds files and folders of the workspace by name.
func (s *Server) getSearch(x *protocol.Exchange) error {
	values := x.Query()
	if _, err := s.mustFind(x, values.Get("sessionId")); err != nil {
		return err
	}
	if !values.Has("q") {
		return invalid("Search query parameter is required")
	}
	kind := workspace.Kind(values.Get("type"))
	switch kind {
	case "", "all":
		kind = ""
	case workspace.File, workspace.Directory:
	default:
		return invalid("type must be file, directory or all")
	}
	found, err := s.workspace(x).Search(x.Context(), values.Get("q"), kind)
	if err != nil {
		return err
	}
	items := make([]item, 0, len(found))
	for _, e := range found {
		items = append(items, item{e.Name, withSlash(e.Path), e.Kind, e.Path})
	}
	return x.Reply(http.StatusOK, map[string][]item{"items": items})
}

// pathCheck reports whether a path exists.
type pathCheck struct {
	Path   string         `json:"path"`
	Exists bool           `json:"exists"`
	Type   workspace.Kind `json:"type,omitempty"`
}

// postValidate reports which of the given paths exist.
func (s *Server) postValidate(x *protocol.Exchange) error {
	var in struct {
		SessionID string    `json:"sessionId"`
		Paths     *[]string `json:"paths"`
	}
	if err := read(x, &in); err != nil {
		return err
	}
	if _, err := s.mustFind(x, x.Query().Get("sessionId"), in.SessionID); err != nil {
		return err
	}
	switch {
	case in.Paths == nil:
		return invalid("Paths array is required")
	case len(*in.Paths) > maxPaths:
		return invalid("Paths array has more than %d entries", maxPaths)
	}
	results := make([]pathCheck, 0, len(*in.Paths))
	for _, name := range *in.Paths {
		entry, err := s.workspace(x).Lookup(name)
		if err != nil && !errors.Is(err, workspace.ErrNotFound) {
			return err
		}
		results = append(results, pathCheck{name, err == nil, entry.Kind})
	}
	return x.Reply(http.StatusOK, map[string][]pathCheck{"results": results})
}
