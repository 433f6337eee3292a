package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// deadlined is a response whose connection notes the deadlines that it is given.
type deadlined struct {
	*httptest.ResponseRecorder
	read, write []time.Time
}

func (d *deadlined) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, at)
	return nil
}

func (d *deadlined) SetWriteDeadline(at time.Time) error {
	d.write = append(d.write, at)
	return nil
}

func TestEveryAnswerHasADeadline(t *testing.T) {
	t.Parallel()
	handler, _ := brokenHandler(t)
	for _, path := range []string{"/healthz", "/openapi.yaml", "/v1/agents", "/v1/threads/t", "/nowhere"} {
		for _, body := range []string{"", "x"} {
			w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, io.NopCloser(strings.NewReader(body)))
			if r.ContentLength = int64(len(body)); body == "" {
				r.Body = http.NoBody
			}
			handler.ServeHTTP(w, r)
			if len(w.write) == 0 || time.Until(w.write[0]) > time.Minute || time.Until(w.write[0]) < 30*time.Second {
				t.Errorf("%s: got deadlines %v to write", path, w.write)
			}
			if (len(w.read) > 0) != (body != "") || body != "" && time.Until(w.read[0]) > 30*time.Second {
				t.Errorf("%s with body %q: got deadlines %v to read", path, body, w.read)
			}
		}
	}
}
