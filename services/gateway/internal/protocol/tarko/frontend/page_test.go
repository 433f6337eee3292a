package frontend

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScriptsOfAPage(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		html string
		want string // of the policy's sources; "" = it is not a page
	}{
		{"a script within the page", "<script>a</script>", hash([]byte("a"))},
		{"one that speaks of scripts", `<script>"<script>"</script>`, hash([]byte(`"<script>"`))},
		{"one whose comment holds another", "<script><!--<script></script>--></script>", hash([]byte("<!--<script></script>-->"))},
		{"an empty one, and one behind it", "<script></script><p><script defer>b</script>", hash(nil) + " " + hash([]byte("b"))},
		{"one from the page's origin", "<script src=x.js></script><script>a</script>", "'self' " + hash([]byte("a"))},
		{"one in a comment", "<!-- <script>a</script> -->", ""},
		{"no page at all", "", ""},
	} {
		p, err := parse([]byte(test.html))
		if test.want == "" {
			if err == nil {
				t.Errorf("%s: got %q, want an error", test.name, p.policy)
			}
			continue
		}
		if err != nil || !strings.Contains(p.policy, "script-src "+test.want+";") {
			t.Errorf("%s: got %+v, %v, want %q", test.name, p, err, test.want)
		}
	}
}

func TestAScriptIsPutBeforeAllOthers(t *testing.T) {
	t.Parallel()
	p, err := parse([]byte("<!-- <script> --><head><p>é</p><script>a</script><script>b</script></head>"))
	if err != nil {
		t.Fatal(err)
	}
	want := "<!-- <script> --><head><p>é</p><script>c</script><script>a</script><script>b</script></head>"
	if got := p.With("c"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("<script>a</script><script src=b>")
	f.Add("<script><!--<script>")
	f.Fuzz(func(t *testing.T, html string) {
		p, err := parse([]byte(html))
		if err != nil {
			return
		}
		if rest := html[p.scripts:]; !strings.HasPrefix(strings.ToLower(rest), "<script") {
			t.Errorf("the first script of %q is said to begin at %q", html, rest)
		}
	})
}

// The gateway does not expand @file and @dir, so the page must not offer them.
func TestThePageOffersNoReferencesToFiles(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "index.html")
	if err := os.WriteFile(name, []byte("<html><head><script>app()</script></head></html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	page, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = page.Close() })
	_, rest, found := strings.Cut(string(page.html), "window.AGENT_WEB_UI_CONFIG=")
	text, _, _ := strings.Cut(rest, ";\n")
	var look struct {
		Selector *bool `json:"enableContextualSelector"` // on by default
	}
	if err := json.Unmarshal([]byte(text), &look); err != nil || !found || look.Selector == nil || *look.Selector {
		t.Errorf("got the configuration %s, %v, want the selector off", text, err)
	}
}
