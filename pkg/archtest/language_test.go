package archtest_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// showLanguage lists every hit of a folder and its subfolders: go test ./pkg/archtest -run TestLanguage -v -language=pkg/loop.
var showLanguage = flag.String("language", "", "list the hits of this folder")

// phrase is a wording that comments and messages avoid. There may be max occurrences per 10,000 words of comments,
// counted over all folders: the highest count of five comparable projects (connect-go, a2a-go, mercure, river,
// go-sdk). With a max of 0 each occurrence is an error.
type phrase struct {
	name    string
	pattern *regexp.Regexp
	max     float64
}

func phrases() []phrase {
	of := func(name, pattern string, limit float64) phrase {
		return phrase{name: name, pattern: regexp.MustCompile(`(?i)\b(?:` + pattern + `)\b`), max: limit}
	}
	return []phrase{
		of("nobody", `nobody`, 0),
		of("whoever", `whoever`, 0),
		of("somebody", `somebody`, 0),
		of("tell", `tells?|told|telling`, 0),
		of("stands", `stands?|stood`, 0),
		of("beside", `besides?`, 0),
		of("goes on", `goes on|go on|went on|going on`, 0),
		of("hears", `hears?|heard|hearing`, 0),
		of("is none", `(?:is|are|was|were) none`, 0),
		of("is no NOUN", `(?:is|are|was|were) no [a-z]+`, 0),
		of("a code of a design document", `(?-i:S[0-4](?:-[0-9]+|'s)?)`, 0),
		of("of its own", `of (?:its|their) own`, 1.1),
		of("knows", `knows?|knew`, 0.6),
		of("behind", `(?-i:behind)`, 1.1),
		of("what it", `what it`, 0.6),
	}
}

// allowed matches what a pattern hits although its meaning is another one: "is no longer", "there is no", "stands for", and the
// values of the setting onUnknown.
var allowed = regexp.MustCompile(`(?i)\b(?:(?:is|are|was|were) no (?:longer|more|less|fewer|later|other)|stands? (?:for|in for)|` +
	`there (?:is|are|was|were) no(?:ne)?|one of ask, tell)\b`)

// sql matches literals of SQL, whose columns keep their names.
var sql = regexp.MustCompile(`^.(?:SELECT|UPDATE|INSERT|DELETE| FROM) `)

// hit is one occurrence of a phrase.
type hit struct {
	phrase, position, line string
}

// writing is the text of the files of one folder: comments, and string literals of more than one word. Of tests, only the
// phrases that never occur are hits.
type writing struct {
	words int // of comments
	hits  []hit
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	all := writing{}
	for dir, w := range writings(t) {
		all.words += w.words
		all.hits = append(all.hits, w.hits...)
		if folder := *showLanguage; folder != "" && (dir == folder || strings.HasPrefix(dir, folder+"/")) {
			show(t, w.hits)
		}
	}
	for _, p := range phrases() {
		var hits []hit
		for _, h := range all.hits {
			if h.phrase == p.name {
				hits = append(hits, h)
			}
		}
		rate := float64(len(hits)) * 1e4 / float64(max(all.words, 1))
		t.Logf("%-32s %5.1f per 10,000 words, max %.1f", p.name, rate, p.max)
		if rate > p.max {
			show(t, hits)
			t.Errorf("%q: got %.1f per 10,000 words of comments, want at most %.1f", p.name, rate, p.max)
		}
	}
}

func show(t *testing.T, hits []hit) {
	t.Helper()
	for _, h := range hits {
		t.Logf("%s: %q in %q", h.position, h.phrase, h.line)
	}
}

// writings reads the files of every folder.
func writings(t *testing.T) map[string]writing {
	t.Helper()
	root := filepath.Join("..", "..")
	folders := map[string]writing{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && file != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || isForeign(name)) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" || name == "language_test.go" {
			return nil
		}
		list := phrases()
		if strings.HasSuffix(name, "_test.go") {
			list = slices.DeleteFunc(list, func(p phrase) bool { return p.max > 0 })
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		w := folders[filepath.ToSlash(dir)]
		words := w.words
		if err := w.read(file, list); err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") {
			w.words = words // the rates are of other files
		}
		folders[filepath.ToSlash(dir)] = w
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

func (w *writing) read(file string, list []phrase) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse %s: %w", file, err)
	}
	for _, group := range parsed.Comments {
		text := strings.Join(strings.Fields(group.Text()), " ")
		w.words += len(strings.Fields(text))
		w.find(set.Position(group.Pos()).String(), text, list)
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if ok && literal.Kind == token.STRING && strings.Contains(literal.Value, " ") && !sql.MatchString(literal.Value) {
			w.find(set.Position(literal.Pos()).String(), literal.Value, list)
		}
		return true
	})
	return nil
}

func (w *writing) find(position, text string, list []phrase) {
	text = allowed.ReplaceAllString(text, "_")
	for _, p := range list {
		for _, at := range p.pattern.FindAllStringIndex(text, -1) {
			w.hits = append(w.hits, hit{p.name, position, text[max(0, at[0]-60):min(len(text), at[1]+60)]})
		}
	}
}

func TestLanguageFinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"plain text has no hit", "Read returns the next frame, or io.EOF at the end of the log.", nil},
		{"each phrase is found", "Nobody is told of it.", []string{"nobody", "tell"}},
		{"a negated noun", "An answer that is no JSON.", []string{"is no NOUN"}},
		{"no longer is not a negated noun", "The lease is no longer held.", nil},
		{"stands for is a term", "The key stands for a principal.", nil},
		{"there is none", "The name, or \"\" if there is none.", nil},
		{"a code of a document with a number", "as S0-42 says", []string{"a code of a design document"}},
		{"S3 of a longer name", "the S3Bucket", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var w writing
			w.find("file.go:1", test.text, phrases())
			var got []string
			for _, h := range w.hits {
				got = append(got, h.phrase)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
