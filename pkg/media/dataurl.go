package media

import (
	"encoding/base64"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
)

// inline turns a data URL (RFC 2397) in base64 into data. Its media type counts, unless the part names one itself.
func inline(where string, p event.InputPart) (event.InputPart, error) {
	if len(p.URL) < len("data:") || !strings.EqualFold(p.URL[:len("data:")], "data:") {
		return p, nil
	}
	about, text, found := strings.Cut(p.URL[len("data:"):], ",")
	mediaType, isBase64 := strings.CutSuffix(about, ";base64")
	if !found || !isBase64 {
		return p, invalid("%s.url is a data URL that is not in base64; send data:image/png;base64,…", where)
	}
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(data) == 0 {
		return p, invalid("%s.url is a data URL without valid base64 after its comma", where)
	}
	p.URL, p.Data = "", data
	if p.MediaType == "" {
		p.MediaType = mediaType
	}
	return p, nil
}
