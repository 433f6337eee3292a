package frontend

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// Routes returns the routes of a page: / and the address of each session return the page itself, and
// /static its assets. They need no key, since browsers send none when they navigate; the page contains programs and no data.
func (p *Page) Routes() []protocol.Route {
	if p == nil {
		return nil
	}
	get := func(path string, serve func(*protocol.Exchange) error) protocol.Route {
		return protocol.Route{Method: http.MethodGet, Path: path, Serve: serve}
	}
	return []protocol.Route{
		get("/", p.getPage),
		get("/:sessionId", p.getPage),
		get("/"+assets+"/*file", p.getAsset),
		get("/favicon.ico", getIcon),
		get("/login", p.getLogin),
		{Method: http.MethodPost, Path: "/login", Scope: auth.ScopeRead, Serve: postLogin},
		{Method: http.MethodPost, Path: "/logout", Serve: postLogout},
	}
}

// getPage returns the page, which reads from its address which session to show.
func (p *Page) getPage(x *protocol.Exchange) error {
	if session := x.Param("sessionId"); session != "" && !id.Valid(session) {
		return notFound()
	}
	x.SetHeader("Content-Security-Policy", p.policy)
	x.SetHeader("Cache-Control", "no-cache")
	x.SetHeader("ETag", p.tag)
	x.ServeContent("page.html", time.Time{}, bytes.NewReader(p.html))
	return nil
}

// getAsset returns a file of the page's folder of assets. Paths outside that folder are not found.
func (p *Page) getAsset(x *protocol.Exchange) error {
	name := path.Join(assets, path.Clean("/"+x.Param("file")))
	file, err := p.files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return notFound()
	}
	if err != nil {
		return apierr.Wrap(err, apierr.RouteNotFound, "this file of the page cannot be read")
	}
	defer func() { _ = file.Close() }() // it was only read
	about, err := file.Stat()
	if err != nil || !about.Mode().IsRegular() {
		return notFound()
	}
	x.SetHeader("Cache-Control", "max-age=3600")
	x.ServeContent(name, about.ModTime(), file)
	return nil
}

func notFound() error {
	return apierr.New(apierr.RouteNotFound, "there is nothing at this path")
}
