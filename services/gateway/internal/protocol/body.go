package protocol

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// ErrContentEncoding is the cause of the error of a compressed body, whose size is not known before it is expanded.
var ErrContentEncoding = errors.New("a body with a Content-Encoding")

// ReadBody reads the body of a request. It fails if the body is compressed, larger than most bytes (0 = gateway.maxBody), or
// incomplete when its deadline passes.
func (h *Host) ReadBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, apierr.Wrap(ErrContentEncoding, apierr.InvalidMessageFormat, "Content-Encoding %.40q is not taken; send plain JSON", encoding)
	}
	most = h.maxBody(most)
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(most)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, apierr.Wrap(err, apierr.InvalidMessageFormat, "the body did not come within %v", h.limits.bodyTime)
	}
	if err != nil {
		return nil, apierr.Wrap(err, apierr.InvalidMessageFormat, "the body came in part only; send all of it")
	}
	r.Body = http.NoBody                                             // it is read to its end
	err = http.NewResponseController(w).SetReadDeadline(time.Time{}) // else the deadline would end the stream that may follow
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return body, nil
}

// maxBody returns the limit of a route's body: ofRoute, or the gateway's if it is 0.
func (h *Host) maxBody(ofRoute int64) int64 {
	if ofRoute > 0 {
		return ofRoute
	}
	return h.limits.body
}

func tooLarge(most int64) error {
	return apierr.New(apierr.MessageTooLarge, "the body is larger than %d bytes; send large files by url", most)
}

func queryList(query url.Values, name string) []string {
	var all []string
	for _, list := range query[name] {
		for one := range strings.SplitSeq(list, ",") {
			if one = strings.TrimSpace(one); one != "" {
				all = append(all, one)
			}
		}
	}
	return all
}
