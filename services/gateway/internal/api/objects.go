package api

import (
	"bytes"
	"errors"
	"net/http"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/gin-gonic/gin"
)

// getObject gives the data of an image or file that an event of the thread refers to. An object is named by what is in it,
// so it never changes; and its type is what its bytes are, whatever was said of it, so no browser takes it for a page.
func (a *API) getObject(c *gin.Context) error {
	object := c.Param("objectId")
	if !id.Valid(object) {
		return noObject()
	}
	_, ref, err := a.readThread(c)
	if err != nil {
		return err
	}
	data, err := a.Bus.Object(c.Request.Context(), ref.Tenant, ref.ThreadID, event.ObjectRef{Object: object, SHA256: object})
	if errors.Is(err, bus.ErrNotFound) {
		return noObject()
	}
	if err != nil {
		return apierr.Wrap(err, apierr.Unavailable, "the object could not be read; try again")
	}
	h := c.Writer.Header()
	contentType := media.Type(data)
	if !media.IsImage(contentType) {
		h.Set("Content-Disposition", "attachment")
	}
	if contentType == media.Text {
		contentType += "; charset=utf-8"
	}
	h.Set("Content-Type", contentType)
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cache-Control", "private, max-age=31536000, immutable")
	h.Set("ETag", `"`+object+`"`)
	http.ServeContent(c.Writer, c.Request, "", time.Time{}, bytes.NewReader(data))
	return nil
}

func noObject() error {
	return apierr.New(apierr.ObjectNotFound, "there is no such object on this thread; it may be older than what is kept")
}
