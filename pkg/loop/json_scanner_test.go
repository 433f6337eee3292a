package loop

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// FuzzMembers cuts a JSON text in two: what is read of the content must be the content, however it comes.
func FuzzMembers(f *testing.F) {
	for _, text := range []string{
		`{"title":"T","format":"markdown","content":"# 42\n\u00e9 \ud83d\ude00 \"q\" \\ é😀"}`,
		`{"content":"a","more":{"content":"b"},"list":["content",":",{"content":1}]}`,
		` { "con\u0074ent" : "" } `, `{"content":7}`, `{"content":["x"]}`, `["content","x"]`, `"content"`, `{}`, ``,
		`{"content":"\ud800"}`, `{"content":"\x"}`, `{"a":"\u12","content":"x"}`,
	} {
		for _, at := range []uint{0, 1, 13, 40, 48, 51, 57, 64} {
			f.Add(text, at)
		}
	}
	f.Fuzz(func(t *testing.T, text string, at uint) {
		cut := int(at % uint(len(text)+1))
		var m jsonStringScanner
		got := m.read([]byte(text[:cut])) + m.read([]byte(text[cut:]))
		var whole struct {
			Title   string `json:"title"`
			Content string `json:"content"`
		}
		if json.Unmarshal([]byte(text), &whole) != nil || !strings.HasPrefix(strings.TrimSpace(text), "{") {
			return
		}
		if got != whole.Content || m.value("content") != whole.Content || m.value("title") != whole.Title {
			t.Errorf("%q cut at %d: got %q and %q, want %q and %q", text, cut, got, m.value("title"), whole.Content, whole.Title)
		}
	})
}
