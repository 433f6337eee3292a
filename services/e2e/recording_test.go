package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/tarkotest"
	"github.com/go-json-experiment/json/jsontext"
)

// player is a provider that says what a model has said in a recording, and the tools that gave it what they gave then.
type player struct {
	mu        sync.Mutex
	recording tarkotest.Recording
}

func (p *player) put(r tarkotest.Recording) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recording = r
}

// ServeHTTP implements http.Handler.
func (p *player) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name, ok := strings.CutPrefix(r.URL.Path, "/tools/"); ok {
		_, _ = w.Write(p.result(name)) // the test fails on what is missing
		return
	}
	body, err := io.ReadAll(r.Body)
	turn := strings.Count(string(body), `"role":"tool"`)
	if err != nil || turn >= len(p.recording.Turns) {
		http.Error(w, "the recording has no such turn", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, chunk := range p.recording.Turns[turn].Chunks {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", chunk)
	}
	_, _ = io.WriteString(w, usage+"data: [DONE]\n\n")
}

// usage is what our backend asks for at the end, and Tarko's did not.
const usage = `data: {"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}` + "\n\n"

func (p *player) result(tool string) json.RawMessage {
	for _, turn := range p.recording.Turns {
		for _, call := range turn.Calls {
			if call.Name == tool {
				return call.Result
			}
		}
	}
	return json.RawMessage(`"the recording has no such call"`)
}

// TestRecordedRunIsReplayedEndToEnd sends the recorded traffic of Tarko's model through gateway, runner and executor:
// what a client of Tarko's reads has the types of the recording in its order. The recording stops before the end of the run.
func TestRecordedRunIsReplayedEndToEnd(t *testing.T) {
	t.Parallel()
	recording := tarkotest.Open(t, tarkotest.Weather)
	recorded.put(recording)
	id := session(t, members{"agent": "recorded"})
	_, events := tarkoStream(t, "/sessions/query/stream", members{"sessionId": id, "query": "How's the weather today?"})
	told := decoded(t, events)
	var got, want []string
	for _, e := range told {
		got = append(got, e.text("type"))
	}
	for _, e := range recording.Events {
		want = append(want, e.Type)
	}
	want = append(want, string(words.TypeAgentRunEnd))
	if !slices.Equal(got, want) {
		t.Fatalf("got\n%v\nwant\n%v", slices.Compact(got), slices.Compact(want))
	}
	for i, e := range recording.Events {
		var then members
		if err := e.Decode(&then); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"content", "name", "toolName", "arguments", "finishReason"} {
			if now, then := jsonText(t, told[i][name]), jsonText(t, then[name]); !same(now, then) {
				t.Errorf("event %d, %s: %s is %s, want %s", i, e.Type, name, now, then)
			}
		}
	}
	var listed []string
	for _, e := range tarko(t, http.MethodGet, "/sessions/events?sessionId="+id, nil, http.StatusOK).events() {
		listed = append(listed, e.text("type"))
	}
	streaming := func(kind string) bool { return words.Type(kind).IsStreaming() }
	if lasting := slices.DeleteFunc(want, streaming); !slices.Equal(listed, lasting) {
		t.Errorf("the list has %v, want %v", listed, lasting)
	}
}

func same(a, b json.RawMessage) bool {
	return (*jsontext.Value)(&a).Canonicalize() == nil && (*jsontext.Value)(&b).Canonicalize() == nil && bytes.Equal(a, b)
}
