package wire

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the golden files")

// formats are the decoders, by the first word of the name of their recordings.
func formats() map[string]func() Decoder {
	return map[string]func() Decoder{
		"claude": Claude, "codex": Codex, "opencode": OpenCode, "text": Text,
		"records": func() Decoder { return Records(Fields{}) },
	}
}

// decoded is what comes out of output that comes in pieces.
func decoded(d Decoder, pieces ...[]byte) string {
	var chunks []backend.Chunk
	var failed error
	for _, piece := range pieces {
		some, err := d.Write(piece)
		chunks = append(chunks, some...)
		if err != nil {
			failed = err
			break
		}
	}
	some, err := d.Close()
	chunks = append(chunks, some...)
	if failed == nil {
		failed = err
	}
	return formatted(chunks, d.Requests(), d.Report(), failed)
}

// formatted returns the form in which golden files contain a run. Pieces of one text are one.
func formatted(chunks []backend.Chunk, requests []Request, report Report, failed error) string {
	var b strings.Builder
	text := ""
	say := func() {
		if text != "" {
			fmt.Fprintf(&b, "TextDelta %q\n", text)
		}
		text = ""
	}
	for _, c := range chunks {
		if delta, ok := c.(backend.TextDelta); ok {
			text += string(delta)
			continue
		}
		say()
		fields := fmt.Sprintf("%+v", c)
		if started, ok := c.(backend.ToolStarted); ok {
			fields = fmt.Sprintf("{ID:%s Name:%s Args:%s}", started.ID, started.Name, started.Args)
		}
		line := strings.TrimPrefix(fmt.Sprintf("%T ", c), "backend.") + fields
		b.WriteString(strings.ReplaceAll(line, "\n", `\n`) + "\n")
	}
	say()
	for _, r := range requests {
		fmt.Fprintf(&b, "request {ID:%s CallID:%s Tool:%s Args:%s}\n", r.ID, r.CallID, r.Tool, r.Args)
	}
	fmt.Fprintf(&b, "report %+v\n", report)
	if failed != nil {
		fmt.Fprintf(&b, "error %v\n", failed)
	}
	return b.String()
}

func recordings(t testing.TB) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	all := make(map[string]*txtar.Archive, len(files))
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = archive
	}
	return all
}

func opener(t testing.TB, file string) func() Decoder {
	t.Helper()
	name, _, _ := strings.Cut(filepath.Base(file), "-")
	open, ok := formats()[name]
	if !ok {
		t.Fatalf("%s is of no format", file)
	}
	return open
}

func TestRecordingsGiveTheirChunksHoweverTheyAreCut(t *testing.T) {
	t.Parallel()
	for file, archive := range recordings(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			open, stream := opener(t, file), archive.Files[0].Data
			whole := decoded(open(), stream)
			if *update {
				archive.Files = []txtar.File{archive.Files[0], {Name: "chunks", Data: []byte(whole)}}
				if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(archive.Files[1].Data); whole != want {
				t.Fatalf("got\n%s\nwant\n%s", whole, want)
			}
			for at := 0; at < len(stream); at += 1 + len(stream)/2000 {
				if got := decoded(open(), stream[:at], stream[at:]); got != whole {
					t.Fatalf("cut at byte %d it gives\n%s\nwant\n%s", at, got, whole)
				}
			}
			if got := decoded(open(), slices.Collect(slices.Chunk(stream, 1))...); got != whole {
				t.Errorf("byte by byte it gives\n%s\nwant\n%s", got, whole)
			}
		})
	}
}

func TestTruncatedOutputIsNotAnAnswer(t *testing.T) {
	t.Parallel()
	for file, archive := range recordings(t) {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "text-") || strings.HasPrefix(name, "records-") {
			continue // of these the end of the output is the end of the answer
		}
		open, stream := opener(t, file), bytes.TrimSpace(archive.Files[0].Data)
		last := bytes.LastIndexByte(stream, '\n') + 1
		for _, at := range []int{last / 2, last, len(stream) - 1} {
			d := open()
			decoded(d, stream[:at])
			if d.Report().Finish != "" {
				t.Errorf("%s: after %d of %d bytes it says %q", name, at, len(stream), d.Report().Finish)
			}
		}
	}
}

func TestALineWithoutEndIsRefused(t *testing.T) {
	t.Parallel()
	d := Claude()
	piece := bytes.Repeat([]byte("x"), 1<<20)
	for range MaxLine >> 20 {
		if _, err := d.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Write(piece); err == nil {
		t.Error("a line longer than the limit was taken")
	}
	if _, err := d.Write([]byte("\n{}\n")); err == nil {
		t.Error("it continues after an error")
	}
}

func TestLinesOutsideTheFormatAreReportedAFewTimes(t *testing.T) {
	t.Parallel()
	d := Codex()
	chunks, err := d.Write(bytes.Repeat([]byte("panic: \xff"+strings.Repeat("x", 1000)+"\n"), 100))
	if err != nil || len(chunks) != maxForeign {
		t.Fatalf("got %d chunks and %v, want %d", len(chunks), err, maxForeign)
	}
	for _, c := range chunks {
		if w, ok := c.(backend.Warning); !ok || len(w) > 2*maxNote || !utf8.ValidString(string(w)) {
			t.Errorf("got %q", c)
		}
	}
}

func TestOffsetFields(t *testing.T) {
	t.Parallel()
	d := Records(Fields{Text: []string{"message.parts.text"}, Session: []string{"meta.chat"}, Error: []string{"oops"}})
	got := decoded(d, []byte(`{"text":"no","meta":{"chat":"c7"},"message":{"parts":{"text":"yes"}},"oops":{"message":"none"}}`))
	if want := "TextDelta \"yes\"\n"; !strings.HasPrefix(got, want) || d.Report().SessionID != "c7" || d.Report().Failure != "" {
		t.Errorf("got %s", got)
	}
}

func TestMissingSessionMessages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"No conversation found with session ID: 0-0":                             true,
		"Error: thread/resume failed: no rollout found for thread id 0 (code 3)": true,
		"Session not found":            true,
		"session ses_1 does not exist": true,
		"no such file or directory":    false,
		"command not found":            false,
		"the session was closed by the user, who has no further questions for you": false,
		"rate limit reached": false,
	} {
		if got := SaysMissing(text); got != want {
			t.Errorf("%q: got %t", text, got)
		}
	}
}

// FuzzDecoders feeds all decoders with what a program may print: they give the same whatever the cuts, only text that is
// text, and tools that start before they get on and end.
func FuzzDecoders(f *testing.F) {
	for _, archive := range recordings(f) {
		for line := range bytes.Lines(archive.Files[0].Data) {
			if len(line) < 300 { // long ones cost time and say no more
				f.Add(line, uint64(len(line)))
			}
		}
	}
	all := formats()
	names := slices.Sorted(maps.Keys(all))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		for _, name := range names {
			open := all[name]
			d := open()
			chunks, err := d.Write(stream)
			more, closed := d.Close()
			if err == nil {
				err = closed
			}
			chunks = append(chunks, more...)
			sound(t, name, chunks)
			var pieces [][]byte
			for rest := stream; len(rest) > 0; {
				n := 1 + random.IntN(len(rest))
				pieces, rest = append(pieces, rest[:n]), rest[n:]
			}
			if got, want := decoded(open(), pieces...), formatted(chunks, d.Requests(), d.Report(), err); got != want {
				t.Fatalf("%s: cut in %d it gives\n%s\nwant\n%s", name, len(pieces), got, want)
			}
		}
	})
}

func sound(t *testing.T, name string, chunks []backend.Chunk) {
	t.Helper()
	running := map[string]bool{}
	for _, c := range chunks {
		switch c := c.(type) {
		case backend.TextDelta:
			if c == "" {
				t.Fatalf("%s: an empty text", name)
			}
		case backend.ToolStarted:
			if running[c.ID] || len(c.Args) > 0 && jsontext.Value(c.Args).Kind() != '{' {
				t.Fatalf("%s: tool %q started with %s", name, c.ID, c.Args)
			}
			running[c.ID] = true
		case backend.ToolProgress:
			if !running[c.ID] {
				t.Fatalf("%s: tool %q gets on and does not run", name, c.ID)
			}
		case backend.ToolEnded:
			if !running[c.ID] {
				t.Fatalf("%s: tool %q ends and does not run", name, c.ID)
			}
			delete(running, c.ID)
		}
	}
}
