// Package frontend serves a web page of somebody else's in front of Tarko's routes: Tarko's published user interface, or one
// made like it, a single HTML file that asks the origin it came from.
//
// The page may run its own scripts and no others: what a model writes, and a page shows, is nobody's program.
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

// maxPage is the size of the largest page that is taken.
const maxPage = 64 << 20

// assets is the folder beside a page that it may load from.
const assets = "static"

// look is what Tarko's user interface asks for under AGENT_WEB_UI_CONFIG. Without it, it shows pictures and links of its
// maker's.
//
//go:embed look.json
var look []byte

// Page is an HTML page with its scripts. A nil Page is none. It is safe for concurrent use.
type Page struct {
	html    []byte
	tag     string   // of the content, as an ETag
	policy  string   // Content-Security-Policy
	scripts int      // where in html its first script begins
	files   *os.Root // the folder of the page
}

// Open reads the page in a file, or the index.html of a folder; "" is none. Close it.
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
		page, err = parse([]byte(page.With("window.AGENT_WEB_UI_CONFIG=" + string(look))))
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

// Close lets go of the page's folder.
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
		return nil, errors.New("it has no script, so it is no user interface")
	}
	p.policy = policy(sources)
	return p, nil
}

// script reads what a script element holds, and returns what allows it to run and how many bytes were read.
func script(tokens *html.Tokenizer, element html.Token) (source string, size int) {
	for _, a := range element.Attr {
		if a.Key == "src" {
			return "'self'", 0
		}
	}
	if tokens.Next() != html.TextToken {
		return hash(nil), len(tokens.Raw()) // it is empty: this was its end
	}
	return hash(tokens.Raw()), len(tokens.Raw())
}

func hash(script []byte) string {
	sum := sha256.Sum256(script)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// policy is what a page may do: run the scripts that it came with, and ask its own origin. Nothing that it shows can send
// anything elsewhere, not even by the address of a picture.
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

// With returns the page with a script of the caller's that runs before all others of it. The script must not hold "</".
func (p *Page) With(script string) string {
	return string(p.html[:p.scripts]) + "<script>" + script + "</script>" + string(p.html[p.scripts:])
}
