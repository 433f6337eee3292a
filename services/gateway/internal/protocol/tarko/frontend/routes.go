package frontend

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/api"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Mount lists the routes of a page: itself under / and under the address of each session, and the files beside it. No key
// opens them, since browsers have none to show when they are told to go somewhere; there is nothing in them but programs.
func (p *Page) Mount(d codec.Codec) api.Mount {
	if p == nil {
		return api.Mount{Dialect: d}
	}
	get := func(path string, serve func(*api.Call) error) api.Endpoint {
		return api.Endpoint{Route: api.Route{Method: http.MethodGet, Path: path}, Serve: serve}
	}
	return api.Mount{Dialect: d, Endpoints: []api.Endpoint{
		get("/", p.getPage),
		get("/:sessionId", p.getPage),
		get("/"+assets+"/*file", p.getAsset),
	}}
}

// getPage gives the page. Which session it shows is its own business: it reads that from its address.
func (p *Page) getPage(c *api.Call) error {
	if session := c.Param("sessionId"); session != "" && !id.Valid(session) {
		return nothing()
	}
	c.Header("Content-Security-Policy", p.policy)
	c.Header("Cache-Control", "no-cache")
	c.Header("ETag", p.tag)
	c.Content("page.html", time.Time{}, bytes.NewReader(p.html))
	return nil
}

// getAsset gives a file from the page's folder of assets. Nothing outside that folder is given.
func (p *Page) getAsset(c *api.Call) error {
	name := path.Join(assets, path.Clean("/"+c.Param("file")))
	file, err := p.files.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nothing()
	}
	if err != nil {
		return apierr.Wrap(err, apierr.RouteNotFound, "this file of the page cannot be read")
	}
	defer func() { _ = file.Close() }() // it was only read
	about, err := file.Stat()
	if err != nil || !about.Mode().IsRegular() {
		return nothing()
	}
	c.Header("Cache-Control", "max-age=3600")
	c.Content(name, about.ModTime(), file)
	return nil
}

func nothing() error {
	return apierr.New(apierr.RouteNotFound, "there is nothing at this path")
}
