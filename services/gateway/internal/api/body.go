package api

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
)

// bodyPatience is how long a client may take to send a body.
const bodyPatience = 30 * time.Second

// readBody returns the body, if it is not too large and comes in time.
func (a *API) readBody(c *gin.Context) ([]byte, error) {
	r := c.Request
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, fault.New(fault.InvalidMessageFormat, "Content-Encoding %.40q is not understood; send plain JSON", encoding)
	}
	if r.ContentLength > a.limits.body {
		return nil, a.tooLarge()
	}
	deadline := http.NewResponseController(c.Writer)
	if err := deadline.SetReadDeadline(time.Now().Add(bodyPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.Writer, r.Body, a.limits.body))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, a.tooLarge()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, fault.Wrap(err, fault.InvalidMessageFormat, "the body did not come within %v", bodyPatience)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidMessageFormat, "the body came in part only; send all of it")
	}
	if err := deadline.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	return body, nil
}

func (a *API) tooLarge() error {
	return fault.New(fault.MessageTooLarge, "the body is larger than %d bytes; send large files by url", a.limits.body)
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
		return 0, fault.New(fault.InvalidMessageFormat, "%s=%.40q must be a number from 1 to %d", name, text, most)
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
		return t, fault.New(fault.InvalidMessageFormat, "%s=%.40q must be a time like 2026-01-31T12:00:00Z", name, text)
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
