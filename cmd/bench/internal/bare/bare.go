// Package bare is the baseline of the benchmark: a net/http handler that creates events of a given number, size and
// rate, or passes on posted ones, and flushes each of them. It stores nothing, and clients cannot resume.
package bare

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Shape describes a stream, as the query of GET /stream does.
type Shape struct {
	Deltas int     // number of deltas
	Rate   float64 // deltas per second; 0 = as fast as possible
	Size   int     // bytes of a delta on the wire
	Last   int     // bytes of the terminal event on the wire
}

// Query returns the shape as the query of a URL.
func (s Shape) Query() string {
	return url.Values{
		"deltas": {strconv.Itoa(s.Deltas)},
		"rate":   {strconv.FormatFloat(s.Rate, 'g', -1, 64)},
		"size":   {strconv.Itoa(s.Size)},
		"last":   {strconv.Itoa(s.Last)},
	}.Encode()
}

func parseShape(q url.Values) (Shape, error) {
	var s Shape
	for _, field := range []struct {
		name string
		into *int
	}{{"deltas", &s.Deltas}, {"size", &s.Size}, {"last", &s.Last}} {
		n, err := strconv.Atoi(q.Get(field.name))
		if err != nil || n < 0 {
			return s, fmt.Errorf("%s is %q, must be a number", field.name, q.Get(field.name))
		}
		*field.into = n
	}
	rate, err := strconv.ParseFloat(q.Get("rate"), 64)
	if err != nil || rate < 0 {
		return s, fmt.Errorf("rate is %q, must be a number", q.Get("rate"))
	}
	s.Rate = rate
	return s, nil
}

// Handler serves GET /stream, GET /idle (one event, then nothing until the client disconnects), GET and POST
// /topics/{name}, and GET /readyz.
func Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
		shape, err := parseShape(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		stream(w, shape)
	})
	hub := topics{byName: map[string]chan []byte{}}
	mux.HandleFunc("GET /topics/{name}", hub.read)
	mux.HandleFunc("POST /topics/{name}", hub.post)
	mux.HandleFunc("GET /idle", func(w http.ResponseWriter, r *http.Request) {
		if (&output{w: w}).write("metadata", 0, 0) == nil {
			<-r.Context().Done()
		}
	})
	return mux
}

func stream(w http.ResponseWriter, s Shape) {
	o := output{w: w}
	start := time.Now()
	for i := range s.Deltas {
		if s.Rate > 0 {
			due := time.Duration(float64(i) * float64(time.Second) / s.Rate)
			time.Sleep(due - time.Since(start))
		}
		if o.write("text", i, s.Size) != nil {
			return // the client has disconnected
		}
	}
	_ = o.write("done", s.Deltas, s.Last) // the last event
}

// output is a response and the buffer for its events.
type output struct {
	w      http.ResponseWriter
	buffer []byte
}

// write writes event n with size bytes, or more if its envelope is longer, and flushes it.
func (o *output) write(name string, n, size int) error {
	if len(o.buffer) == 0 {
		o.w.Header().Set("Content-Type", "text/event-stream")
		o.w.Header().Set("Cache-Control", "no-cache")
	}
	o.buffer = AppendEvent(o.buffer[:0], name, n, size)
	if _, err := o.w.Write(o.buffer); err != nil {
		return err
	}
	return http.NewResponseController(o.w).Flush()
}

// The ids are as long as those of agentbus.
const (
	incarnation = "bare00000000"
	requestID   = "req_0bare000000000000000000000"
	messageID   = "msg_0bare000000000000000000000"
)

const (
	filler = "the quick brown fox jumps over the lazy dog and "
	ending = "\"}\n\n"
)

// AppendEvent appends event n as the native protocol encodes it, with its text padded to a total of size bytes.
func AppendEvent(dst []byte, name string, n, size int) []byte {
	start := len(dst)
	dst = append(dst, "id: "+incarnation+"-"...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(append(dst, "\nevent: "...), name...)
	dst = append(append(dst, "\ndata: {\"event\":\""...), name...)
	dst = append(dst, "\",\"id\":\""+incarnation+"-"...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, "\",\"requestId\":\""+requestID+"\",\"timestamp\":\""...)
	dst = time.Now().UTC().AppendFormat(dst, "2006-01-02T15:04:05.000000Z")
	dst = append(dst, "\",\"messageId\":\""+messageID+"\",\"blockId\":\"b0\",\"stage\":\""...)
	if name == "text" {
		dst = append(dst, "delta"...)
	}
	dst = append(dst, "\",\"deltaIndex\":"...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, ",\"delta\":\""...)
	for missing := size - len(ending) - (len(dst) - start); missing > 0; missing -= len(filler) {
		dst = append(dst, filler[:min(missing, len(filler))]...)
	}
	return append(dst, ending...)
}
