package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// standings counts how often the page has asked for the state of its session, and how many answers it has read.
const standings = `(() => {
	const real = window.fetch;
	window.standings = {asked: 0, read: 0};
	window.fetch = async (...call) => {
		if (!String(call[0]).includes("/sessions/status")) return real(...call);
		window.standings.asked++;
		const answer = await real(...call), read = answer.json.bind(answer);
		answer.json = async () => {
			const value = await read();
			window.standings.read++;
			return value;
		};
		return answer;
	};
})()`

// waitTimeout is how long a test waits for a page to show something.
const waitTimeout = 30 * time.Second

// tab is a page of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // the tab has the lifetime of the context

	opened time.Time
}

// open opens a page in a tab of its own.
func open(t *testing.T, url string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium)
	t.Cleanup(cancel)
	p := &tab{t, ctx, time.Now()}
	t.Cleanup(p.picture)
	if err := chromedp.Do(ctx, script(standings), chromedp.Navigate(url)); err != nil {
		t.Fatalf("open %s: %v", url, err)
	}
	return p
}

// script runs in every page before its own.
func script(source string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		return none, t.Call(ctx, "Page.addScriptToEvaluateOnNewDocument", map[string]string{"source": source}, nil)
	}
}

// settled waits until the page has the state of its session. It asks for it a moment after it has opened a session, and takes
// the answer for the newest word, even when it has sent a query meanwhile: then it hides its Stop button while the query runs.
func (p *tab) settled() {
	p.t.Helper()
	p.until("window.standings.read > 0 && window.standings.read === window.standings.asked")
}

// answers waits until the page shows a text that a query of it has, and the answer too.
func (p *tab) answers(text string) {
	p.t.Helper()
	p.until("document.body.innerText.split(" + strconv.Quote(text) + ").length > 2")
}

// picture keeps what the page looks like at the end of a test.
func (p *tab) picture() {
	png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(p.pictureFile(), png, 0o600)
	}
	if err != nil {
		p.t.Logf("no picture of the page: %v", err)
	}
}

// pictureFile is the file for the picture of the page. Of several pages of a test the later ones get a number.
func (p *tab) pictureFile() string {
	if *pictures == "" {
		return filepath.Join(p.t.ArtifactDir(), "page.png")
	}
	name := filepath.Join(*pictures, strings.ReplaceAll(p.t.Name(), "/", "-"))
	for n := 1; ; n++ {
		file := fmt.Sprintf("%s-%d.png", name, n)
		if info, err := os.Stat(file); err != nil || info.ModTime().Before(p.opened) {
			return file
		}
	}
}

// text is what the page shows.
func (p *tab) text() string {
	p.t.Helper()
	return eval[string](p, "document.body.innerText")
}

func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits for an expression to become true.
func (p *tab) until(expression string) {
	p.t.Helper()
	var err error
	for range 3 { // a page that leads to another one interrupts the wait
		_, err = chromedp.Run(p.ctx, chromedp.Poll[bool](expression,
			chromedp.WithPollingInterval(100*time.Millisecond), chromedp.WithPollingTimeout(waitTimeout)))
		if err == nil || !strings.Contains(err.Error(), "navigated") && !strings.Contains(err.Error(), "context with specified id") {
			break
		}
	}
	if err != nil {
		p.t.Fatalf("waiting for %s: %v; the page shows\n%s", expression, err, p.text())
	}
}

// shows waits until the page shows all these texts.
func (p *tab) shows(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.until("document.body.innerText.includes(" + strconv.Quote(text) + ")")
	}
}

// click clicks the first element that a selector finds.
func (p *tab) click(selector string) {
	p.t.Helper()
	element := fmt.Sprintf("document.querySelector(%q)", selector)
	p.until(element + " !== null")
	eval[bool](p, "("+element+".click(), true)")
}

// clickText clicks the innermost element with a text.
func (p *tab) clickText(text string) {
	p.t.Helper()
	p.shows(text)
	eval[bool](p, fmt.Sprintf(`(Array.from(document.querySelectorAll("body *")).filter(e => e.innerText && e.innerText.trim() === %q).at(-1).click(), true)`, text))
}

// sends writes a query into the page and sends it as people do, with Ctrl and Enter.
func (p *tab) sends(query string) {
	p.t.Helper()
	p.until(`document.querySelector("textarea:enabled") !== null`)
	eval[bool](p, `(document.querySelector("textarea").focus(), true)`)
	lines := strings.Split(query, "\n")
	for i, line := range lines {
		keys := []chromedp.Action[chromedp.Void]{chromedp.KeyEvent(line)}
		if i < len(lines)-1 {
			keys = append(keys, chromedp.KeyEvent(kb.Enter))
		}
		if err := chromedp.Do(p.ctx, keys...); err != nil {
			p.t.Fatalf("write %q: %v", line, err)
		}
	}
	p.until(`document.querySelector("textarea").value === ` + strconv.Quote(query))
	if err := chromedp.Do(p.ctx, chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl))); err != nil {
		p.t.Fatalf("send %q: %v", query, err)
	}
}

// types writes into the element that has the focus.
func (p *tab) types(text string) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.KeyEvent(text)); err != nil {
		p.t.Fatalf("write %q: %v", text, err)
	}
}

// session is the one that the page's address names.
func (p *tab) session() string {
	p.t.Helper()
	p.until(`/^\/thr_/.test(location.pathname)`)
	return strings.TrimPrefix(eval[string](p, "location.pathname"), "/")
}
