package native

import (
	"bytes"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// getObject returns the data of an image or file that an event of the thread refers to. Its id is the hash of its content, so
// responses are immutable. Its type is detected from its bytes, so that a browser does not render it as a page.
func (s *Server) getObject(x *protocol.Exchange) error {
	object := x.Param("objectId")
	if !id.Valid(object) {
		return objectNotFound()
	}
	_, ref, err := s.readThread(x)
	if err != nil {
		return err
	}
	data, err := s.Bus.Object(x.Context(), ref.Tenant, ref.ThreadID, event.ObjectRef{Object: object, SHA256: object})
	if errors.Is(err, bus.ErrNotFound) {
		return objectNotFound()
	}
	if err != nil {
		return apierr.Wrap(err, apierr.Unavailable, "the object could not be read; try again")
	}
	contentType := media.Type(data)
	if !media.IsImage(contentType) {
		x.SetHeader("Content-Disposition", "attachment")
	}
	if contentType == media.Text {
		contentType += "; charset=utf-8"
	}
	x.SetHeader("Content-Type", contentType)
	x.SetHeader("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	x.SetHeader("Cache-Control", "private, max-age=31536000, immutable")
	x.SetHeader("ETag", `"`+object+`"`)
	x.ServeContent("", time.Time{}, bytes.NewReader(data))
	return nil
}

func objectNotFound() error {
	return apierr.New(apierr.ObjectNotFound, "the thread has no such object; it may have expired")
}
