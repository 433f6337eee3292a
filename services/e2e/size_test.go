package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json/jsontext"
)

// alphabets are what texts are made of: each grows in another way on the way from a body to the log.
var alphabets = map[string][]string{
	"line separators":    {"\u2028", "\u2029"},
	"control characters": {`\u0001`, `\u001f`, `\u0000`, "\u007f", `\t`},
	"marks of HTML":      {"<", ">", "&", `\"`, `\\`, "/"},
	"astral characters":  {"\U0001F600", "\U0010FFFF", `\ud83d\ude00`},
	"letters":            {"a", "z", "é", "漢"},
	"escaped separators": {`\u2028`, `\u2029`},
	"everything":         {"\u2028", `\u0001`, "<", "\U0001F600", "a", `\u2029`, `\\`, "\ufffd"},
}

// text returns the inside of a JSON string of about size bytes.
func text(random *rand.Rand, alphabet []string, size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(strings.Repeat(alphabet[random.IntN(len(alphabet))], 1+random.IntN(64)))
	}
	return b.String()
}

// bodies are requests that differ in the member that is long.
var bodies = map[string]string{
	"a message":      `{"messages":[{"role":"user","content":"/say %s"}]}`,
	"the model":      `{"messages":[{"role":"user","content":"/say hi"}],"context":{"model":"%s"}}`,
	"context":        `{"messages":[{"role":"user","content":"/say hi"}],"context":{"note":"%s"}}`,
	"parts":          `{"messages":[{"role":"user","content":[{"type":"text","text":"/say a"},{"type":"text","text":"%s"}]}]}`,
	"a role's extra": `{"messages":[{"role":"user","content":[{"type":"text","text":"/say a","note":"%s"}]}]}`,
}

// TestWhateverIsAcceptedEndsOnce posts texts of all kinds, most of them near the sizes at which a record, or the first
// frame of a log, no longer fits into a message. What is refused is refused before anything is written.
func TestWhateverIsAcceptedEndsOnce(t *testing.T) {
	t.Parallel()
	const seed = 20260131
	random := rand.New(rand.NewPCG(seed, 1))
	sizes := []int{440 << 10, 449 << 10, 470 << 10, 500 << 10, 880 << 10, 899 << 10, 905 << 10, 1 << 20}
	for kind, alphabet := range alphabets {
		for member, form := range bodies {
			size := sizes[random.IntN(len(sizes))]
			body := fmt.Sprintf(form, text(random, alphabet, size))
			t.Run(fmt.Sprintf("%s of %s, %d", member, kind, size), func(t *testing.T) { endsOnce(t, body) })
		}
	}
	t.Run("165,000 line separators", func(t *testing.T) {
		endsOnce(t, fmt.Sprintf(bodies["a message"], strings.Repeat("\u2028", 165_000)))
	})
	t.Run("cut within a character", func(t *testing.T) {
		if status := endsOnce(t, fmt.Sprintf(bodies["a message"], "a\xe2\x80")); status != http.StatusBadRequest {
			t.Errorf("got %d, want 400", status)
		}
	})
}

// endsOnce posts a body, and wants a refusal or one terminal event.
func endsOnce(t *testing.T, body string) (status int) {
	t.Helper()
	response := call(t.Context(), t, http.MethodPost, "/v1/agents/demo/stream", body)
	if response.StatusCode != http.StatusOK {
		f := readFailure(t, response)
		if f.Code != apierr.MessageTooLarge && f.Code != apierr.InvalidMessageFormat {
			t.Errorf("refused with %+v", f)
		}
		return response.StatusCode
	}
	tr := readStream(t, response, -1)
	ends := 0
	for _, e := range tr.Events {
		if event.IsTerminal(e.Body) {
			ends++
		}
	}
	if ends != 1 || !event.IsTerminal(tr.Events[len(tr.Events)-1].Body) {
		t.Errorf("got %d terminal events in %s", ends, tr.shape())
	}
	return response.StatusCode
}

// readFailure reads the error in the body of a refusal.
func readFailure(t *testing.T, response *http.Response) event.Error {
	t.Helper()
	body := readAll(t, response)
	e, err := event.Decode([]byte(body))
	if err != nil {
		t.Fatalf("%d %s: %v", response.StatusCode, body, err)
	}
	f, ok := e.Body.(event.Error)
	if !ok {
		t.Fatalf("%d %s, want an error event", response.StatusCode, body)
	}
	return f
}

// TestASteerThatCannotBeStoredIsRefused steers with a text that fits into a record and not into an event.
func TestASteerThatCannotBeStoredIsRefused(t *testing.T) {
	t.Parallel()
	run := background(t, "/v1/agents/demo/requests", prompt("/stream 100 50", "/say done"))
	large, err := jsontext.AppendQuote(nil, strings.Repeat("\u2028", 165_000))
	if err != nil {
		t.Fatal(err)
	}
	steer := fmt.Sprintf(`{"messages":[{"role":"user","content":%s}]}`, large)
	response := call(t.Context(), t, http.MethodPost, "/v1/requests/"+run.RequestID+"/steer", steer)
	if f := readFailure(t, response); response.StatusCode != http.StatusRequestEntityTooLarge || f.Code != apierr.MessageTooLarge {
		t.Errorf("got %d %+v, want 413 message_too_large", response.StatusCode, f)
	}
	if tr := resume(t, run.RequestID, ""); answerText(tr.done(t)) == "" {
		t.Errorf("got %s, want the run to end as if there had been no steer", tr.shape())
	}
}
