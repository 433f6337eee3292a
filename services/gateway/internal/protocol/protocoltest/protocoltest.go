// Package protocoltest tests the codec of a protocol: golden transcripts of every event, and the properties that make a
// resume exact. The test of each codec calls [Run].
package protocoltest

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/schemas"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"golang.org/x/tools/txtar"
)

// Format is one format of a codec, under its name in the transcripts.
type Format struct {
	Name    string
	Options codec.Options
	Dialect codec.Codec // another codec of the same protocol; nil = the tested one
}

func (f Format) of(d codec.Codec) codec.Codec {
	if f.Dialect != nil {
		return f.Dialect
	}
	return d
}

// Run tests d in each of its formats. The transcripts are in testdata/transcripts.txtar; the flag update, defined by
// [Update], rewrites them.
func Run(t *testing.T, d codec.Codec, update *bool, formats ...Format) {
	t.Helper()
	log := Log(t)
	tests := []struct {
		does string
		run  func(*testing.T, codec.Codec, Format, []event.Frame)
	}{
		{"resumes after any event with the same bytes", resumes},
		{"does not depend on how events are framed", ignoresFrames},
		{"keeps internal events inside", keepsInternals},
	}
	for _, format := range formats {
		for _, test := range tests {
			t.Run(format.Name+" "+test.does, func(t *testing.T) {
				t.Parallel()
				test.run(t, format.of(d), format, log)
			})
		}
	}
	t.Run("writes every event as it did before", func(t *testing.T) { t.Parallel(); transcripts(t, d, update, formats, log) })
	t.Run("encodes every error", func(t *testing.T) { t.Parallel(); failures(t, d) })
	t.Run("takes no garbage", func(t *testing.T) { t.Parallel(); garbage(t, d) })
}

// Update defines the flag for Run. Call it in a package variable.
func Update() *bool { return flag.Bool("update", false, "rewrite golden files") }

// Log returns a log with every event that has an example in the schemas, one event per frame. As a conversation it is
// meaningless.
func Log(t *testing.T) []event.Frame {
	t.Helper()
	files, err := fs.Glob(schemas.FS, "events/examples/*.json")
	if err != nil || len(files) < len(event.Names()) {
		t.Fatalf("%d examples of %d events (%v)", len(files), len(event.Names()), err)
	}
	slices.SortStableFunc(files, func(a, b string) int { return strings.Compare(group(a), group(b)) })
	var log []event.Frame
	for n, file := range files {
		text, err := fs.ReadFile(schemas.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := event.Decode(text)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		e.ID = event.NewCursor("k3f9", uint64(n))
		line, err := event.Encode(e)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		log = append(log, event.Frame{
			Incarnation: "k3f9", Epoch: 1, First: uint64(n), Names: []event.Name{e.Body.Name()}, Lines: append(line, '\n'),
		})
	}
	return log
}

// group sorts terminal events last, so that the log ends with one.
func group(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".")
	if event.Name(name).IsTerminal() {
		return "~" + file
	}
	return file
}

func encoder(t *testing.T, d codec.Codec, o codec.Options) codec.Encoder {
	t.Helper()
	enc, err := d.Encoder(o)
	if err != nil {
		t.Fatal(err)
	}
	if enc.Start() > o.From {
		t.Fatalf("starts at %d, after the first event to write, %d", enc.Start(), o.From)
	}
	return enc
}

// encode writes the frames from the encoder's start, and returns the offset of each frame.
func encode(t *testing.T, enc codec.Encoder, log []event.Frame) (out []byte, starts []int) {
	t.Helper()
	var err error
	for _, f := range log {
		starts = append(starts, len(out))
		if f.Next() <= enc.Start() {
			continue
		}
		if out, err = enc.Append(out, f.From(enc.Start())); err != nil {
			t.Fatal(err)
		}
	}
	return out, starts
}

func resumes(t *testing.T, d codec.Codec, format Format, log []event.Frame) {
	whole, starts := encode(t, encoder(t, d, format.Options), log)
	for n, start := range starts {
		o := format.Options
		o.From = uint64(n)
		if got, _ := encode(t, encoder(t, d, o), log); !bytes.Equal(got, whole[start:]) {
			t.Fatalf("from event %d: got\n%s\nwant\n%s", n, got, whole[start:])
		}
	}
}

func ignoresFrames(t *testing.T, d codec.Codec, format Format, log []event.Frame) {
	want, _ := encode(t, encoder(t, d, format.Options), log)
	for size := 2; size <= len(log); size += 3 {
		if got, _ := encode(t, encoder(t, d, format.Options), join(log, size)); !bytes.Equal(got, want) {
			t.Fatalf("%d events a frame: got\n%s\nwant\n%s", size, got, want)
		}
	}
}

// join packs size frames into one.
func join(log []event.Frame, size int) []event.Frame {
	var packed []event.Frame
	for part := range slices.Chunk(log, size) {
		f := part[0]
		f.Names, f.Lines = nil, nil
		for _, p := range part {
			f.Names = append(f.Names, p.Names...)
			f.Lines = append(f.Lines, p.Lines...)
		}
		packed = append(packed, f)
	}
	return packed
}

func keepsInternals(t *testing.T, d codec.Codec, format Format, log []event.Frame) {
	var internal []event.Frame
	for _, f := range log {
		if shown := f.Names[0] == event.NameToolOutput && format.Options.ToolOutput != nil; f.Names[0].IsInternal() && !shown {
			f.First = uint64(len(internal))
			internal = append(internal, f)
		}
	}
	if len(internal) == 0 {
		t.Fatal("no internal event among the examples")
	}
	if got, _ := encode(t, encoder(t, d, format.Options), internal); len(got) > 0 {
		t.Errorf("wrote %s", got)
	}
}

func transcripts(t *testing.T, d codec.Codec, update *bool, formats []Format, log []event.Frame) {
	var got txtar.Archive
	for _, format := range formats {
		enc := encoder(t, format.of(d), format.Options)
		out, _ := encode(t, enc, log)
		got.Files = append(got.Files, txtar.File{Name: format.Name + " (" + enc.ContentType() + ")", Data: out})
	}
	file := filepath.Join("testdata", "transcripts.txtar")
	if *update {
		if err := os.WriteFile(file, txtar.Format(&got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatalf("%v (run the test with -update to write it)", err)
	}
	if !bytes.Equal(txtar.Format(&got), txtar.Format(want)) {
		t.Errorf("the transcripts differ from %s; run with -update and read the difference", file)
	}
}

func failures(t *testing.T, d codec.Codec) {
	for _, code := range apierr.Codes() {
		contentType, body := d.EncodeError(codec.ErrorResponse{
			Error: apierr.New(code, "what was wrong with \"this\"\nand that"), RequestID: "r1", At: time.Unix(0, 0),
		})
		if contentType == "" || len(body) == 0 {
			t.Errorf("%s: got %q of type %q", code, body, contentType)
		}
	}
}

func garbage(t *testing.T, d codec.Codec) {
	for _, body := range []string{"", "null", "[]", "{", "\x00", "\xff\xfe{", strings.Repeat("[", 100_000)} {
		if _, err := d.Decode([]byte(body)); apierr.CodeOf(err) != apierr.InvalidMessageFormat {
			t.Errorf("%.20q: got %v, want invalid_message_format", body, err)
		}
	}
}

// Refuses tests that d refuses bodies. Each case is a body, and a part of the message of its error.
func Refuses(t *testing.T, d codec.Codec, cases [][2]string) {
	t.Helper()
	for _, c := range cases {
		_, err := d.Decode([]byte(c[0]))
		if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%.120s: got %v, want invalid_message_format with %q", c[0], err, c[1])
		}
	}
}
