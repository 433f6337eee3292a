// Package frontend serves the web page of another project for Tarko's routes, such as Tarko's published user interface:
// a single HTML file that sends requests to its own origin.
//
// The page may run the scripts it contains and no others, so that text of a model that the page shows cannot run as a
// program.
package frontend

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxPage is the largest size of a page.
const maxPage = 64 << 20

// assets is the folder next to a page from which it may load files.
const assets = "static"

// uiConfig is the value of AGENT_WEB_UI_CONFIG, which configures Tarko's user interface. Without it, that shows
// pictures and links of its vendor.
//
//go:embed look.json
var uiConfig []byte

// pageScript adapts Tarko's user interface to the gateway; its comment says to what end.
//
//go:embed page.js
var pageScript string

// Page is an HTML page with its scripts. A nil Page serves nothing. It is safe for concurrent use.
type Page struct {
	html    []byte
	tag     string   // of the content, as an ETag
	policy  string   // Content-Security-Policy
	scripts int      // offset in html of its first script
	files   *os.Root // the folder of the page
}

// Open reads the page in a file, or the index.html of a folder. It returns nil for "". The caller must close the page.
func Open(name string) (*Page, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // a nil Page is one that is not there
	}
	if about, err := os.Stat(name); err == nil && about.IsDir() {
		name = filepath.Join(name, "index.html")
	}
	text, err := read(name)
	if err != nil {
		return nil, fmt.Errorf("read the page: %w", err)
	}
	page, err := parse(text)
	if err == nil {
		page, err = parse([]byte(page.With("window.AGENT_WEB_UI_CONFIG=" + string(uiConfig) + ";\n" + pageScript)))
	}
	if err != nil {
		return nil, fmt.Errorf("read the page %s: %w", name, err)
	}
	if page.files, err = os.OpenRoot(filepath.Dir(name)); err != nil {
		return nil, fmt.Errorf("open the folder of the page: %w", err)
	}
	return page, nil
}

func read(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxPage+1))
	if err == nil && len(text) > maxPage {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxPage)
	}
	return text, err
}

// Close closes the page's folder.
func (p *Page) Close() error {
	if p == nil {
		return nil
	}
	return p.files.Close()
}

// parse finds the scripts of a page.
func parse(text []byte) (*Page, error) {
	sum := sha256.Sum256(text)
	p := &Page{html: text, tag: `"` + hex.EncodeToString(sum[:8]) + `"`, scripts: -1}
	tokens := html.NewTokenizer(bytes.NewReader(text))
	tokens.SetMaxBuf(maxPage)
	var sources []string
	for at := 0; ; {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			break
		}
		begin := at
		at += len(tokens.Raw())
		if kind != html.StartTagToken {
			continue
		}
		token := tokens.Token()
		if token.DataAtom != atom.Script {
			continue
		}
		if p.scripts < 0 {
			p.scripts = begin
		}
		source, body := script(tokens, token)
		at += body
		sources = append(sources, source)
	}
	if err := tokens.Err(); !errors.Is(err, io.EOF) {
		return nil, err
	}
	if p.scripts < 0 {
		return nil, errors.New("it has no script, so it is not a user interface")
	}
	p.policy = policy(sources)
	return p, nil
}

// script reads the content of a script element. It returns the source expression that allows it, and the number of
// bytes read.
func script(tokens *html.Tokenizer, element html.Token) (source string, size int) {
	for _, a := range element.Attr {
		if a.Key == "src" {
			return "'self'", 0
		}
	}
	if tokens.Next() != html.TextToken {
		return hash(nil), len(tokens.Raw()) // an empty script: this was its end tag
	}
	return hash(tokens.Raw()), len(tokens.Raw())
}

func hash(script []byte) string {
	sum := sha256.Sum256(script)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// policy returns the Content-Security-Policy of a page: it may run its own scripts and send requests to its own origin.
// Content that it shows cannot send data elsewhere, not even in the address of a picture.
func policy(scripts []string) string {
	return strings.Join([]string{
		"default-src 'none'",
		"script-src " + strings.Join(scripts, " "),
		"style-src 'self' 'unsafe-inline'",
		"img-src 'self' data: blob:",
		"media-src 'self' data: blob:",
		"font-src 'self' data:",
		"connect-src 'self'",
		"frame-src 'self' blob:",
		"base-uri 'none'",
		"form-action 'none'",
		"frame-ancestors 'none'",
	}, "; ")
}

// With returns the page with an additional script that runs before all others. The script must not contain "</".
func (p *Page) With(script string) string {
	return string(p.html[:p.scripts]) + "<script>" + script + "</script>" + string(p.html[p.scripts:])
}
