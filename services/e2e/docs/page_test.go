package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// root is the folder of the repository.
const root = "../../.."

// page is a document of the folder docs.
type page struct {
	t    *testing.T
	name string
	text string
}

func read(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return page{t, name, string(text)}
}

// blocks returns the code blocks after the first occurrence of a text, at least one.
func (p page) blocks(after string) (blocks []string) {
	p.t.Helper()
	_, rest, found := strings.Cut(p.text, after)
	for {
		_, opened, ok := strings.Cut(rest, "\n```")
		if !ok {
			break
		}
		_, opened, _ = strings.Cut(opened, "\n") // the language
		code, next, closed := strings.Cut(opened, "\n```")
		if !closed {
			p.t.Fatalf("docs/%s has a code block without an end after %q", p.name, after)
		}
		blocks, rest = append(blocks, code+"\n"), next
	}
	if !found || len(blocks) == 0 {
		p.t.Fatalf("docs/%s has no code block after %q", p.name, after)
	}
	return blocks
}

// block returns the first code block after the first occurrence of a text.
func (p page) block(after string) string {
	p.t.Helper()
	return p.blocks(after)[0]
}

// write writes the block that follows the name of a file to that file.
func (p page) write(dir, file string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(dir, file), []byte(p.block("`"+file+"`")), 0o600); err != nil {
		p.t.Fatal(err)
	}
}
