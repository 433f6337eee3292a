package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/agentbus/agentbus/pkg/sse"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxChunk  = 4 << 20   // bytes of one JSON value of a stream
	maxAnswer = 256 << 20 // bytes of a stream
)

var errTooMuch = errors.New("the answer is larger than 256 MiB")

// Stream is the JSON values of a streamed answer: the data of server-sent events, or the lines of a text.
type Stream struct {
	agent Agent
	res   *http.Response
	next  func() (sse.Event, error)
}

// Stream opens the values of a response.
func (a Agent) Stream(res *http.Response) (*Stream, error) {
	s := &Stream{agent: a, res: res}
	body := &limited{res.Body, maxAnswer}
	switch mediaType(res) {
	case sse.ContentType:
		s.next = events(sse.NewReader(body))
	case "application/x-ndjson", "application/jsonl", "application/json-lines":
		s.next = lines(body)
	case "text/html":
		return nil, a.API().Stranger()
	default:
		return nil, a.Broke("the type of its answer is %q; it must be text/event-stream or application/x-ndjson", mediaType(res))
	}
	return s, nil
}

// Streams reports whether a response is a stream of server-sent events.
func Streams(res *http.Response) bool {
	return res.StatusCode == http.StatusOK && mediaType(res) == sse.ContentType
}

// Next waits for the next value: an event, or a line as an event without a name. After the last value of a stream that ended it
// returns the error for a cut answer: the protocols of agents mark the end of an answer.
func (s *Stream) Next() (sse.Event, error) {
	e, err := s.next()
	switch {
	case err == nil:
		return e, nil
	case errors.Is(err, bufio.ErrTooLong), errors.Is(err, sse.ErrTooLong):
		return e, s.agent.Broke("a part of its answer is larger than %d bytes", maxChunk)
	case errors.Is(err, errTooMuch):
		return e, s.agent.Broke("%v", err)
	case errors.Is(err, io.EOF):
		return e, s.agent.Cut(nil)
	default:
		return e, s.agent.Cut(err)
	}
}

// Decode waits for the next value and decodes it. A value that is not JSON, or has another type, is an error.
func (s *Stream) Decode(into any) error {
	e, err := s.Next()
	if err != nil {
		return err
	}
	if err := jsonv2.Unmarshal(e.Data, into); err != nil {
		return s.agent.API().Malformed(err)
	}
	return nil
}

// events reads server-sent events.
func events(r *sse.Reader) func() (sse.Event, error) {
	return func() (sse.Event, error) {
		e, err := r.Next()
		if err == nil && len(e.Data) > maxChunk {
			err = sse.ErrTooLong
		}
		return e, err
	}
}

// lines reads the lines of a text that are not empty. The last one may lack its end if it is complete.
func lines(r io.Reader) func() (sse.Event, error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxChunk)
	scanner.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			return i + 1, data[:i:i], nil
		}
		if rest := bytes.TrimSpace(data); atEOF && len(rest) > 0 {
			if !jsontext.Value(rest).IsValid() {
				return 0, nil, io.ErrUnexpectedEOF
			}
			return len(data), rest, nil
		}
		return 0, nil, nil
	})
	return func() (sse.Event, error) {
		for scanner.Scan() {
			if line := bytes.TrimSpace(scanner.Bytes()); len(line) > 0 {
				return sse.Event{Data: line}, nil
			}
		}
		if err := scanner.Err(); err != nil {
			return sse.Event{}, err
		}
		return sse.Event{}, io.EOF
	}
}

// limited reads at most a number of bytes.
type limited struct {
	io.Reader
	left int64
}

func (b *limited) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooMuch
	}
	n, err := b.Reader.Read(p)
	b.left -= int64(n)
	return n, err
}
