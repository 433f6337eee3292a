package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
)

// errEncoding says that a body is compressed. What it would grow to cannot be known before it has.
var errEncoding = errors.New("a body with a Content-Encoding")

// readBody returns the body, if it is plain, not too large, and comes before its deadline (see deadlines).
func (a *API) readBody(c *gin.Context) ([]byte, error) {
	r := c.Request
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, apierr.Wrap(errEncoding, apierr.InvalidMessageFormat, "Content-Encoding %.40q is not taken; send plain JSON", encoding)
	}
	most := a.maxBody(c)
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, r.Body, most))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, tooLarge(most)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, apierr.Wrap(err, apierr.InvalidMessageFormat, "the body did not come within %v", a.limits.bodyTime)
	}
	if err != nil {
		return nil, apierr.Wrap(err, apierr.InvalidMessageFormat, "the body came in part only; send all of it")
	}
	r.Body = http.NoBody                                                    // nothing of it is left to come
	err = http.NewResponseController(c.Writer).SetReadDeadline(time.Time{}) // else it would end the stream that may follow
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return body, nil
}

// drop reads a body that the route has no use for, and forgets it. Unread, it would hold up the answer.
func (a *API) drop(c *gin.Context) {
	if c.Request.ContentLength == 0 {
		return
	}
	if _, err := a.readBody(c); err != nil {
		a.fail(c, err)
	}
}

// maxBody is the size of the largest body that the route takes.
func (a *API) maxBody(c *gin.Context) int64 {
	if most := c.GetInt64(keyMaxBody); most > 0 {
		return most
	}
	return a.limits.body
}

func tooLarge(most int64) error {
	return apierr.New(apierr.MessageTooLarge, "the body is larger than %d bytes; send large files by url", most)
}

// reply answers with a value as JSON.
func reply(c *gin.Context, status int, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	c.Data(status, "application/json", append(body, '\n'))
	return nil
}

// number reads a whole number from the query; 0 when it is not there.
func number(c *gin.Context, name string, most int) (int, error) {
	text := c.Query(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		return 0, apierr.New(apierr.InvalidMessageFormat, "%s=%.40q must be a number from 1 to %d", name, text, most)
	}
	return n, nil
}

// moment reads a time from the query; the zero time when it is not there.
func moment(c *gin.Context, name string) (time.Time, error) {
	text := c.Query(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, apierr.New(apierr.InvalidMessageFormat, "%s=%.40q must be a time like 2026-01-31T12:00:00Z", name, text)
	}
	return t, nil
}

// words reads a list from the query: separated by commas, or the parameter repeated.
func words(c *gin.Context, name string) []string {
	var all []string
	for _, list := range c.QueryArray(name) {
		for word := range strings.SplitSeq(list, ",") {
			if word = strings.TrimSpace(word); word != "" {
				all = append(all, word)
			}
		}
	}
	return all
}
