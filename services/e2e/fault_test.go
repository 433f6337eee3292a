package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/internal/testcluster"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/pgtest"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/services/e2e/stack"
)

// faultConfig is the configuration of the stacks whose processes are killed.
const faultConfig = `
demo: true
gateway:
  rateLimit: {requests: 1000000, per: 1m, burst: 100000}
  heartbeat: 1s
  webhooks: {plainHTTP: true, allow: [%q]}
tools:
  echo: {effect: %s}
`

// lab is a stack of one test's own, whose processes it kills.
type lab struct{ *stack.Stack }

// setup says what a lab differs in.
type setup struct {
	counts   map[string]int // of each service; default 1
	database string         // "" = a PostgreSQL of the lab's own
	echo     tool.Effect    // of the tool echo; default none
	agents   string         // more configuration, in YAML
	receiver string         // host and port that notifications may be sent to; default none
	env      []string       // of the services
	nats     string         // limits of the JetStream account
}

// newLab starts a stack.
func newLab(t *testing.T, s setup) lab {
	t.Helper()
	if faults == nil {
		t.Skip("faults need processes that can be killed: make e2e")
	}
	o := *faults
	o.Dir, o.Counts, o.Env, o.Database, o.NATSLimits = t.TempDir(), s.counts, s.env, s.database, s.nats
	o.Config = filepath.Join(o.Dir, "config.yaml")
	config := fmt.Sprintf(faultConfig, cmp.Or(s.receiver, "receiver.test"), cmp.Or(s.echo, tool.EffectNone)) + s.agents
	if err := os.WriteFile(o.Config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	running, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(running.Logs())
		}
		if err := running.CheckPermissions(); err != nil {
			t.Error(err)
		}
		running.Kill()
	})
	return lab{running}
}

// database returns an empty database on the server that the tests share. Without processes it is not needed.
func database(t *testing.T) string {
	t.Helper()
	if faults == nil {
		return "unused"
	}
	return pgtest.New(t)
}

// alone leaves one process of a service running, so that what it works on is known, and returns both.
func (l lab) alone(t *testing.T, name string) (works, waits *testcluster.Process) {
	t.Helper()
	both := l.Processes(name)
	if len(both) != 2 {
		t.Fatalf("got %d processes of %s, want 2", len(both), name)
	}
	both[1].Kill()
	return both[0], both[1]
}

// start starts a process that was killed.
func start(t *testing.T, p *testcluster.Process) {
	t.Helper()
	if err := p.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// watch is a client that reads one response in the background.
type watch struct {
	header http.Header
	done   chan struct{}

	mu    sync.Mutex
	tr    transcript
	at    []time.Time // when each event came
	tail  []byte      // the last of what came
	retry time.Duration
	err   error // nil after a clean end
}

// read makes a request and reads the events that answer it until the response ends.
func (l lab) read(ctx context.Context, t *testing.T, method, url, body string, headers ...header) *watch {
	t.Helper()
	w, err := try(ctx, method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// errSeenAll says that a client has seen the end of a request already.
var errSeenAll = errors.New("there is nothing behind the last event")

// try is read for what may be refused.
func try(ctx context.Context, method, url, body string, headers ...header) (*watch, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		request.Header.Set(h[0], h[1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusNoContent {
		return nil, errors.Join(errSeenAll, response.Body.Close())
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
		return nil, errors.Join(fmt.Errorf("%s %s answers %s: %s", method, url, response.Status, text), err)
	}
	w := &watch{header: response.Header, done: make(chan struct{})}
	w.tr.RequestID, w.tr.ThreadID = response.Header.Get("X-Request-Id"), response.Header.Get("X-Thread-Id")
	go func() { // ends with the response; readers wait for done
		defer close(w.done)
		defer response.Body.Close()
		w.follow(sse.NewReader(io.TeeReader(response.Body, tail{w})))
	}()
	return w, nil
}

// tail keeps the last bytes of a response: comments, which a reader of events skips, and where it was cut.
type tail struct{ w *watch }

func (c tail) Write(p []byte) (int, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.tail = append(c.w.tail, p...)
	c.w.tail = c.w.tail[max(0, len(c.w.tail)-200):]
	return len(p), nil
}

func (w *watch) follow(reader *sse.Reader) {
	for {
		frame, err := reader.Next()
		var e event.Event
		if err == nil {
			e, err = event.Decode(frame.Data)
		}
		w.mu.Lock()
		w.retry = reader.Retry()
		if err == nil {
			w.tr.add(e, string(frame.Data), frame.ID)
			w.at = append(w.at, time.Now())
		} else if !errors.Is(err, io.EOF) {
			w.err = err
		}
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// post starts a request at a gateway and reads its stream.
func (l lab) post(t *testing.T, gateway int, body string, headers ...header) *watch {
	t.Helper()
	return l.read(t.Context(), t, http.MethodPost, l.Gateways[gateway]+"/v1/agents/demo/stream", body, headers...)
}

// resume reads the rest of a request's stream at a gateway.
func (l lab) resume(t *testing.T, gateway int, requestID, lastID string) *watch {
	t.Helper()
	var headers []header
	if lastID != "" {
		headers = append(headers, header{"Last-Event-ID", lastID})
	}
	return l.read(t.Context(), t, http.MethodGet, l.Gateways[gateway]+"/v1/requests/"+requestID+"/stream", "", headers...)
}

// persist reads a request on behind what came of it, at one gateway after the other, however often it is cut, and starts
// over when the response says so, as clients should. It gives up after two minutes.
func (l lab) persist(ctx context.Context, came transcript) (transcript, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for turn := 0; ; turn++ {
		var headers []header
		if came.LastID != "" {
			headers = append(headers, header{"Last-Event-ID", came.LastID})
		}
		gateway := l.Gateways[turn%len(l.Gateways)]
		w, err := try(ctx, http.MethodGet, gateway+"/v1/requests/"+came.RequestID+"/stream", "", headers...)
		if err == nil {
			<-w.done
			if w.header.Get("X-Stream-Reset") == "true" {
				came = transcript{RequestID: came.RequestID, ThreadID: came.ThreadID}
			}
			came, err = join(came, w.seen()), w.err
		}
		if err == nil || errors.Is(err, errSeenAll) {
			return came, nil
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return came, fmt.Errorf("request %s has not ended after %d events: %w", came.RequestID, len(came.Events), err)
		}
	}
}

// seen is what has come so far.
func (w *watch) seen() transcript {
	w.mu.Lock()
	defer w.mu.Unlock()
	tr := w.tr
	tr.Events, tr.Lines = slices.Clone(tr.Events), slices.Clone(tr.Lines)
	return tr
}

// until waits until so many events have come.
func (w *watch) until(t *testing.T, events int) {
	t.Helper()
	eventually(t, time.Minute, func() error {
		if got := len(w.seen().Events); got < events {
			return fmt.Errorf("%d events have come, want %d", got, events)
		}
		return nil
	})
}

// end waits for the end of the response and returns all of it. A response that was cut is an error.
func (w *watch) end(t *testing.T, limit time.Duration) transcript {
	t.Helper()
	tr, err := w.cut(t, limit)
	if err != nil {
		t.Fatalf("the stream of %s was cut after %d events: %v", tr.RequestID, len(tr.Events), err)
	}
	return tr
}

// cut waits for the end of the response, whatever it is.
func (w *watch) cut(t *testing.T, limit time.Duration) (transcript, error) {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(limit):
		tr := w.seen()
		t.Fatalf("the stream of %s has not ended after %s; %d events came, the last one %s", tr.RequestID, limit,
			len(tr.Events), last(tr.Lines))
	}
	return w.seen(), w.err
}

// last returns the last line, "" without any.
func last(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[len(lines)-1]
}

// stall is the longest time between two events.
func (w *watch) stall() (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 1; i < len(w.at); i++ {
		longest = max(longest, w.at[i].Sub(w.at[i-1]))
	}
	return longest.Round(time.Millisecond)
}

// eventually tries until it works.
func eventually(t *testing.T, limit time.Duration, try func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// checkStream checks what every stream must keep, whatever happened while it was read: ids that grow, one terminal event
// at the end, blocks whose deltas are dense and whose stops say what they said, and content that is made of the blocks
// that count.
func checkStream(t *testing.T, tr transcript) {
	t.Helper()
	if len(tr.Events) == 0 {
		t.Fatal("the stream is empty")
	}
	var previous uint64
	blocks := map[string]*strings.Builder{}
	deltas := map[string]int{}
	var content []string
	for i, e := range tr.Events {
		_, n, err := event.ParseCursor(string(e.ID))
		if err != nil || i > 0 && n <= previous {
			t.Fatalf("event %d has id %s after %d: %v", i, e.ID, previous, err)
		}
		previous = n
		if e.Body.Name().IsTerminal() != (i == len(tr.Events)-1) {
			t.Fatalf("event %d of %d is %s", i, len(tr.Events), e.Body.Name())
		}
		text, ok := e.Body.(event.Text)
		if !ok {
			continue
		}
		switch text.Stage {
		case event.StageStart:
			blocks[text.BlockID] = new(strings.Builder)
		case event.StageDelta:
			if text.DeltaIndex == nil || *text.DeltaIndex != deltas[text.BlockID] {
				t.Fatalf("delta of block %s has index %v, want %d", text.BlockID, text.DeltaIndex, deltas[text.BlockID])
			}
			deltas[text.BlockID]++
			blocks[text.BlockID].WriteString(text.Delta)
		case event.StageStop:
			if text.Discarded {
				continue
			}
			if said := blocks[text.BlockID].String(); text.Text != said {
				t.Fatalf("block %s stops with %.80q, and its deltas said %.80q", text.BlockID, text.Text, said)
			}
			content = append(content, text.Text)
		}
	}
	if done, ok := tr.Events[len(tr.Events)-1].Body.(event.Done); ok && answerText(done) != strings.Join(content, "|") {
		t.Fatalf("done holds %.80q, and the blocks that count said %.80q", answerText(done), strings.Join(content, "|"))
	}
}

// finished checks a stream that reached its end, and that a reader at any gateway gets the same.
func (l lab) finished(t *testing.T, tr transcript) event.Done {
	t.Helper()
	checkStream(t, tr)
	for gateway := range l.Gateways {
		again := l.resume(t, gateway, tr.RequestID, "").end(t, time.Minute)
		if !slices.Equal(again.Lines, tr.Lines) {
			t.Fatalf("%d events came, and a late reader at gateway %d sees %d", len(tr.Lines), gateway, len(again.Lines))
		}
	}
	return tr.done(t)
}

// join is what a client has read that came back.
func join(parts ...transcript) transcript {
	whole := transcript{RequestID: parts[0].RequestID, ThreadID: parts[0].ThreadID}
	for _, p := range parts {
		whole.Events, whole.Lines = append(whole.Events, p.Events...), append(whole.Lines, p.Lines...)
		whole.LastID = cmp.Or(p.LastID, whole.LastID)
	}
	return whole
}

// discarded counts the blocks that were begun again.
func discarded(tr transcript) (n int) {
	for _, text := range find[event.Text](tr) {
		if text.Discarded {
			n++
		}
	}
	return n
}

// metric is the sum of a metric's values at a process, of those whose labels hold label.
func metric(t *testing.T, p *testcluster.Process, name, label string) (sum float64) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(readAll(t, response)) {
		space := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if space < 0 {
			continue
		}
		series, value := line[:space], strings.TrimSpace(line[space:])
		if base, _, _ := strings.Cut(series, "{"); base != name || !strings.Contains(series, label) {
			continue
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		sum += number
	}
	return sum
}
