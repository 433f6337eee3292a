package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
)

// eyes are providers, of both APIs, that keep what they are sent. They ask for a picture of the tool echo when the prompt
// says so, and answer with a word otherwise.
type eyes struct {
	mu   sync.Mutex
	sent []string
}

// ServeHTTP implements http.Handler.
func (e *eyes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text := string(body)
	e.mu.Lock()
	e.sent = append(e.sent, text)
	e.mu.Unlock()
	answered := strings.Contains(text, `"tool_result"`) || strings.Contains(text, `"role":"tool"`)
	calls := strings.Contains(text, "take a picture") && !answered
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, speech(strings.HasPrefix(r.URL.Path, "/v1/chat"), calls)) // the test fails on what is missing
}

// saw are the requests that a conversation with the marker in it has become.
func (e *eyes) saw(marker string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var found []string
	for _, text := range e.sent {
		if strings.Contains(text, marker) {
			found = append(found, text)
		}
	}
	return found
}

// speech is an answer of a provider: a call of echo for a picture, or a word.
func speech(openAI, calls bool) string {
	const args = `{\"text\":\"a picture\",\"image\":320}`
	switch {
	case openAI && calls:
		return `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":` +
			`{"name":"echo","arguments":"` + args + `"}}]}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
	case openAI:
		return `data: {"choices":[{"index":0,"delta":{"content":"seen"}}]}` + "\n\n" +
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	}
	block, delta, reason := `{"type":"text","text":""}`, `{"type":"text_delta","text":"seen"}`, "end_turn"
	if calls {
		block, reason = `{"type":"tool_use","id":"toolu_1","name":"echo","input":{}}`, "tool_use"
		delta = `{"type":"input_json_delta","partial_json":"` + args + `"}`
	}
	var b strings.Builder
	for _, e := range [][2]string{
		{"message_start", `"message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}`},
		{"content_block_start", `"index":0,"content_block":` + block}, {"content_block_delta", `"index":0,"delta":` + delta},
		{"content_block_stop", `"index":0`},
		{"message_delta", `"delta":{"stop_reason":"` + reason + `"},"usage":{"output_tokens":2}`}, {"message_stop", `"index":0`},
	} {
		fmt.Fprintf(&b, "event: %s\ndata: {\"type\":%q,%s}\n\n", e[0], e[0], e[1])
	}
	return b.String()
}

// photo is a real PNG of several hundred kilobytes.
func photo(t *testing.T) []byte {
	t.Helper()
	grey := image.NewGray(image.Rect(0, 0, 640, 480))
	if _, err := rand.NewChaCha8([32]byte{7}).Read(grey.Pix); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := png.Encode(&out, grey); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// eachEye runs a test against each provider, with words by which its requests differ from others.
func eachEye(t *testing.T, run func(t *testing.T, agent, marker string)) {
	t.Parallel()
	for _, agent := range []string{"eyes-openai", "eyes-anthropic"} {
		t.Run(agent, func(t *testing.T) { t.Parallel(); run(t, agent, id.New("marker")) })
	}
}

func TestAPictureReachesTheModelAndIsReadBack(t *testing.T) {
	eachEye(t, func(t *testing.T, agent, marker string) {
		data := photo(t)
		message := event.InputMessage{Role: event.RoleUser, Content: event.InputContent{
			{Type: event.ContentText, Text: marker},
			{Type: "image", MediaType: "image/png", Name: "photo.png", Data: data},
			{Type: "file", MediaType: "text/markdown", Name: "notes.md", Data: []byte("# what to look for: whiskers")},
		}}
		first := post(t, agent, requestBody(event.AgentRequest{Messages: []event.InputMessage{message}}))
		post(t, agent, say(first.ThreadID, "and again"))
		saw := provider.saw(marker)
		if len(saw) != 2 {
			t.Fatalf("the provider was asked %d times, want twice", len(saw))
		}
		for i, text := range saw {
			if !strings.Contains(text, base64.StdEncoding.EncodeToString(data)) || !strings.Contains(text, "whiskers") {
				t.Errorf("request %d brings no picture, or no notes: %.500s", i, text)
			}
		}
		page := get[historyapi.MessagePage](t, "/v1/threads/"+first.ThreadID+"/messages")
		part := page.Messages[0].Input[1]
		if part.Ref == nil || len(part.Data) > 0 || part.Name != "photo.png" {
			t.Fatalf("the thread has %.300v, want a reference", part)
		}
		response := call(t.Context(), t, http.MethodGet, "/v1/threads/"+first.ThreadID+"/objects/"+part.Ref.Object, "")
		if got := readAll(t, response); got != string(data) || response.Header.Get("Content-Type") != "image/png" {
			t.Errorf("got %s with %d bytes of %s", response.Status, len(got), response.Header.Get("Content-Type"))
		}
	})
}

func TestAPictureOfAToolReachesTheModelAndTheClient(t *testing.T) {
	eachEye(t, func(t *testing.T, agent, marker string) {
		tr := post(t, agent, prompt(marker+": take a picture"))
		if got := answerText(tr.done(t)); got != "seen" {
			t.Errorf("got %q", got)
		}
		result := tr.results()["echo"]
		if result.Status != event.ToolSuccess || result.Summary != "9 bytes" || len(result.Media) != 1 || result.Media[0].Ref == nil {
			t.Fatalf("the client gets %+v, want a summary and a reference", result)
		}
		response := call(t.Context(), t, http.MethodGet, "/v1/threads/"+tr.ThreadID+"/objects/"+result.Media[0].Ref.Object, "")
		data := readAll(t, response)
		if sum := sha256.Sum256([]byte(data)); hex.EncodeToString(sum[:]) != result.Media[0].Ref.SHA256 {
			t.Fatalf("got %s with %d bytes of something else", response.Status, len(data))
		}
		saw := provider.saw(marker)
		if len(saw) != 2 || !strings.Contains(saw[1], base64.StdEncoding.EncodeToString([]byte(data))) {
			t.Errorf("the provider was asked %d times, and did not see the picture", len(saw))
		}
	})
}
