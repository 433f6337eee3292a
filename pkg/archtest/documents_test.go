package archtest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named matches a test that a document names.
var named = regexp.MustCompile(`\b((?:Test|Fuzz|Example)[A-Z]\w*)`)

// TestEveryTestOfTheDocumentsExists keeps what docs/security.md and docs/reliability.md promise tied to tests.
func TestEveryTestOfTheDocumentsExists(t *testing.T) {
	t.Parallel()
	known := allTests(t)
	for _, document := range []string{"security.md", "reliability.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", document))
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("docs/%s names no tests", document)
		}
		for _, m := range found {
			if !known[m[1]] {
				t.Errorf("docs/%s names %s, which does not exist", document, m[1])
			}
		}
	}
}

// TestEveryRowOfSecurityNamesATest walks the rows of the tables, not their heads.
func TestEveryRowOfSecurityNamesATest(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	lines := strings.Split(string(text), "\n")
	for i, line := range lines {
		head := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---")
		if !strings.HasPrefix(line, "| ") || head {
			continue
		}
		rows++
		if !named.MatchString(line) {
			t.Errorf("docs/security.md, line %d names no test: %s", i+1, line)
		}
	}
	if rows < 20 {
		t.Errorf("docs/security.md has %d rows", rows)
	}
}

// allTests are the tests, fuzz targets and examples of the whole tree, by name.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != "../.." && strings.HasPrefix(entry.Name(), ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
