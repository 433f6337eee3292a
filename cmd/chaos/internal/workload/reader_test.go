package workload

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
)

func textEvent(n int, delta string) string {
	return fmt.Sprintf(`{"event":"text","id":"inc-%d","requestId":"req_1","timestamp":"2026-01-31T12:00:00Z","blockId":"b0","stage":"delta","delta":%q}`, n, delta)
}

func doneEvent(n int) string {
	return fmt.Sprintf(`{"event":"done","id":"inc-%d","requestId":"req_1","timestamp":"2026-01-31T12:00:00Z","messageId":"m","threadId":"t",`+
		`"content":[],"usage":{"inputTokens":0,"outputTokens":0},"finishReason":"stop"}`, n)
}

func frame(id int, name, data string) string {
	return fmt.Sprintf("id: inc-%d\nevent: %s\ndata: %s\n\n", id, name, data)
}

// broken is a body that ends with an error.
type broken struct{ io.Reader }

func (b broken) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func read(t *testing.T, r reader, body io.Reader) (oplog.Entry, *transcript) {
	t.Helper()
	log := oplog.New(io.Discard)
	u := &user{
		group: &group{Users: Users{Log: log, Tenants: []string{"ash", "birch"}}}, tenant: "ash", rng: rand.New(rand.NewPCG(1, 1)),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := &transcript{}
	r.read(ctx, cancel, u, connection{}, body, seen)
	return log.Entries()[0], seen
}

func TestReading(t *testing.T) {
	t.Parallel()
	sse, lines := reader{format: formatSSE}, reader{format: formatLines}
	whole := ": heartbeat\n\nretry: 3000\n\n" + frame(2, "text", textEvent(2, "hi")) + frame(3, "done", doneEvent(3))
	tests := []struct {
		what    string
		reader  reader
		body    io.Reader
		seen    int
		end     oplog.End
		partial int
		foreign bool
	}{
		{"server-sent events to the end", sse, strings.NewReader(whole), 2, oplog.Terminal, 0, false},
		{"JSON lines to the end", lines, strings.NewReader(textEvent(2, "hi") + "\n" + doneEvent(3) + "\n"), 2, oplog.Terminal, 0, false},
		{"a cut between two events", sse, broken{strings.NewReader(frame(2, "text", textEvent(2, "hi")))}, 1, oplog.Cut, 0, false},
		{"a cut within an event", sse, broken{strings.NewReader("id: inc-2\nevent: te")}, 0, oplog.Cut, 19, false},
		{"a cut within a line", lines, broken{strings.NewReader(`{"event":`)}, 0, oplog.Cut, 9, false},
		{"an orderly end without a terminal event", sse, strings.NewReader(frame(2, "text", textEvent(2, "hi"))), 1, oplog.Whole, 0, false},
		{"a text of another tenant", lines, strings.NewReader(textEvent(2, "canary-of-birch") + "\n" + doneEvent(3) + "\n"), 2, oplog.Terminal, 0, true},
		{"a text of its own", lines, strings.NewReader(textEvent(2, "canary-of-ash") + "\n" + doneEvent(3) + "\n"), 2, oplog.Terminal, 0, false},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			got, seen := read(t, test.reader, test.body)
			if got.Events != test.seen || got.End != test.end || got.Partial != test.partial || (got.Foreign != "") != test.foreign {
				t.Errorf("got %+v", got)
			}
			if got.Events > 0 && seen.cursor != fmt.Sprintf("inc-%d", got.Seen[got.Events-1].N) {
				t.Errorf("it would resume after %q", seen.cursor)
			}
		})
	}
}

func TestBothFormatsShowTheSameEvents(t *testing.T) {
	t.Parallel()
	a, _ := read(t, reader{format: formatSSE}, strings.NewReader(frame(0, "text", textEvent(0, "x"))+frame(1, "done", doneEvent(1))))
	b, _ := read(t, reader{format: formatLines}, strings.NewReader(textEvent(0, "x")+"\n"+doneEvent(1)+"\n"))
	for i, seen := range a.Seen {
		if seen != b.Seen[i] {
			t.Errorf("got %+v and %+v", seen, b.Seen[i])
		}
	}
}

func TestInvalidEventIsReported(t *testing.T) {
	t.Parallel()
	got, _ := read(t, reader{format: formatLines}, strings.NewReader("{\"event\":1}\n"))
	if got.Error == "" || got.Events != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestOneSeedGivesOneScenario(t *testing.T) {
	t.Parallel()
	script := func() string {
		u := &user{name: "u1", tenant: "ash", rng: rand.New(rand.NewPCG(4, 2))}
		return u.script()
	}
	if one, other := script(), script(); one != other {
		t.Error("one seed has two scripts")
	}
	if !strings.Contains(script(), Secret("ash")) {
		t.Errorf("got %q, want the tenant's canary in it", script())
	}
}
