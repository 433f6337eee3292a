package codec

import (
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
)

// CheckContent returns the content of a message in the form in which it is stored, or a *apierr.Error that begins with
// where.
func CheckContent(where string, content event.InputContent) (event.InputContent, error) {
	content = slices.Clone(content)
	for i, p := range content {
		var err error
		if content[i], err = checkPart(fmt.Sprintf("%s[%d]", where, i), p); err != nil {
			return nil, err
		}
	}
	return content, nil
}

func checkPart(where string, p event.InputPart) (event.InputPart, error) {
	invalid := func(format string, args ...any) error {
		return apierr.New(apierr.InvalidMessageFormat, format, args...)
	}
	switch p.Type {
	case event.ContentText:
		if p.Text == "" {
			return p, invalid("%s has no text; send {\"type\":\"text\",\"text\":\"hi\"} or a plain string", where)
		}
		if p.URL != "" || len(p.Data) > 0 || p.Ref != nil {
			return p, invalid("%s is a text with a url or data; send these in an image or a file", where)
		}
		return p, nil
	case media.Image, media.File:
		return media.Check(where, p)
	default:
		return p, invalid("%s.type is %.40q; use \"text\", \"image\" or \"file\"", where, p.Type)
	}
}
