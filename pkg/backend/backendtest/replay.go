package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/go-json-experiment/json"
	"golang.org/x/tools/txtar"
)

// Replay checks a backend that reads a provider's stream of events over HTTP. Each of the files is a txtar archive of a
// "stream", as the provider sends it, and of the "chunks" that come out; update writes the latter. However the network
// cuts a stream into pieces, the chunks are the same; wherever it breaks off, the turn fails, and may be tried again.
func Replay(t *testing.T, glob string, update bool, open func(*http.Client) backend.Model) {
	t.Helper()
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams in %s: %v", glob, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r := recording{stream: archive.Files[0].Data, open: open}
			got := r.play(t, iotest.OneByteReader(bytes.NewReader(r.stream)))
			if update {
				archive.Files = []txtar.File{archive.Files[0], {Name: "chunks", Data: []byte(got.String())}}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(archive.Files[1].Data); got.String() != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			r.splitAnywhere(t, got)
			r.cutAnywhere(t, got)
		})
	}
}

// recording is a recorded stream and the backend that reads it.
type recording struct {
	stream []byte
	open   func(*http.Client) backend.Model
}

// Transcript is an answer, and the error of its turn, in the form of golden files.
func Transcript(a Answer, err error) string { return played{a, err}.String() }

// played is what came out of a stream.
type played struct {
	Answer
	err error
}

// String is the form in which golden files hold it.
func (p played) String() string {
	var b strings.Builder
	for _, c := range p.Chunks {
		text, err := json.Marshal(c, json.Deterministic(true), json.WithMarshalers(json.MarshalFunc(
			func(d time.Duration) ([]byte, error) { return strconv.AppendQuote(nil, d.String()), nil })))
		if err != nil {
			text = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s %s\n", strings.TrimPrefix(fmt.Sprintf("%T", c), "backend."), text)
	}
	usage, err := json.Marshal(p.Outcome.Usage)
	if err != nil {
		usage = []byte(err.Error())
	}
	fmt.Fprintf(&b, "finish %q model %q id %q usage %s\n", p.Outcome.Finish, p.Outcome.Model, p.Outcome.ID, usage)
	if p.err != nil {
		fmt.Fprintf(&b, "error %v\n", p.err)
	}
	return b.String()
}

func (r recording) play(t *testing.T, body io.Reader) played {
	t.Helper()
	b := r.open(&http.Client{Transport: answering{body}})
	var p played
	p.Outcome, p.err = b.Run(t.Context(), backend.Turn{Model: "m"}, p.add)
	return p
}

func (r recording) splitAnywhere(t *testing.T, want played) {
	t.Helper()
	for at := range r.stream {
		got := r.play(t, io.MultiReader(bytes.NewReader(r.stream[:at]), bytes.NewReader(r.stream[at:])))
		if got.String() != want.String() {
			t.Fatalf("split at byte %d: got\n%s\nwant\n%s", at, got, want)
		}
	}
}

func (r recording) cutAnywhere(t *testing.T, want played) {
	t.Helper()
	ends := []error{io.EOF, io.ErrUnexpectedEOF} // a server that closes, and a connection that breaks
	for at := range r.stream {
		end := ends[at%len(ends)]
		got := r.play(t, io.MultiReader(bytes.NewReader(r.stream[:at]), iotest.ErrReader(end)))
		if problem := brokenOff(got, want); problem != "" {
			t.Fatalf("cut at byte %d by %v: %s; got\n%s\nwhole\n%s", at, end, problem, got, want)
		}
	}
}

// brokenOff says what is wrong with the result of a cut stream; "" for nothing.
func brokenOff(got, whole played) string {
	if got.err == nil {
		if said := content(got); !reflect.DeepEqual(said, content(whole)) || got.Outcome.Finish != whole.Outcome.Finish {
			return "success without the whole answer"
		}
		return ""
	}
	f, ok := errors.AsType[*apierr.Error](got.err)
	if !ok || f.Code != apierr.AgentError {
		return "the error is no " + string(apierr.AgentError)
	}
	if whole.err == nil && !f.Retryable {
		return "the error is final"
	}
	if len(got.Chunks) > len(whole.Chunks) || len(got.Chunks) > 0 && !reflect.DeepEqual(got.Chunks, whole.Chunks[:len(got.Chunks)]) {
		return "the chunks are others"
	}
	return ""
}

func content(p played) []backend.Chunk {
	return slices.DeleteFunc(slices.Clone(p.Chunks), func(c backend.Chunk) bool {
		_, warns := c.(backend.Warning)
		return warns
	})
}

// answering is a server that answers every request with one stream.
type answering struct{ body io.Reader }

// RoundTrip implements [http.RoundTripper].
func (a answering) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(a.body), ContentLength: -1,
	}, nil
}
