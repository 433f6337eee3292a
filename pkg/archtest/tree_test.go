package archtest_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the path that all our packages begin with.
const module = "github.com/agentbus/agentbus/"

// folder is one package as its files have it: imports are ours (without the module's path) and others' alike, those of the
// standard library left out.
type folder struct {
	path        string
	documented  bool
	hasCode     bool // a file that is not a test
	imports     []string
	testImports []string
}

// isTestSupport reports whether the package exists for tests alone: a conformance suite or the like, named …test, or a
// part of the end-to-end tests.
func (f folder) isTestSupport() bool { return isTestSupport(f.path) }

func isTestSupport(folderPath string) bool {
	return strings.HasSuffix(path.Base(folderPath), "test") || strings.HasPrefix(folderPath, "services/e2e/")
}

// tree parses the imports of every Go file. It reads the files in this process, so that a cached result is never
// older than the code.
func tree(t *testing.T) []folder {
	t.Helper()
	root := filepath.Join("..", "..")
	folders := map[string]*folder{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && file != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || isForeign(name)) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if folders[dir] == nil {
			folders[dir] = &folder{path: dir}
		}
		return folders[dir].read(file)
	})
	if err != nil {
		t.Fatal(err)
	}
	all := make([]folder, 0, len(folders))
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		all = append(all, *folders[dir])
	}
	return all
}

// isForeign names the folders that hold no packages of ours.
func isForeign(name string) bool {
	return slices.Contains([]string{"testdata", "node_modules", "vendor", "bin", "out"}, name)
}

func (f *folder) read(file string) error {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	isTest := strings.HasSuffix(file, "_test.go")
	if !isTest {
		f.hasCode = true
		f.documented = f.documented || parsed.Doc != nil
	}
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
			continue
		}
		name = strings.TrimPrefix(name, module)
		if isTest {
			f.testImports = append(f.testImports, name)
		} else {
			f.imports = append(f.imports, name)
		}
	}
	return nil
}

// isOurs reports whether an import of a folder is one of our packages.
func isOurs(name string) bool { return !strings.Contains(strings.SplitN(name, "/", 2)[0], ".") }

// match holds a folder's path against a pattern: "*" stands for one name, "…/..." at the end for the folder and all
// below it. It returns what the stars matched.
func match(pattern, folderPath string) (stars []string, ok bool) {
	if pattern == "..." {
		return nil, true
	}
	pattern, deep := strings.CutSuffix(pattern, "/...")
	want, got := strings.Split(pattern, "/"), strings.Split(folderPath, "/")
	if len(got) < len(want) || len(got) > len(want) && !deep {
		return nil, false
	}
	for i, name := range want {
		if name == "*" {
			stars = append(stars, got[i])
			continue
		}
		if name != got[i] {
			return nil, false
		}
	}
	return stars, true
}

// matchAny reports whether one of the patterns, with $1, $2… in them replaced by stars, matches the path.
func matchAny(patterns []string, folderPath string, stars ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		for i, star := range stars {
			pattern = strings.ReplaceAll(pattern, "$"+strconv.Itoa(i+1), star)
		}
		_, ok := match(pattern, folderPath)
		return ok
	})
}

func TestMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, pattern, path string
		want                bool
	}{
		{"a path matches itself", "pkg/event", "pkg/event", true},
		{"a path does not match what is below it", "pkg/event", "pkg/event/x", false},
		{"dots match the folder itself", "pkg/bus/...", "pkg/bus", true},
		{"dots match what is below", "pkg/bus/...", "pkg/bus/embedded/x", true},
		{"dots do not match a longer name", "pkg/bus/...", "pkg/business", false},
		{"a star is one name", "services/*/cmd", "services/gateway/cmd", true},
		{"a star is not two names", "services/*", "services/gateway/cmd", false},
		{"dots alone match all", "...", "cmd/agentbus", true},
	}
	for _, tt := range tests {
		if _, ok := match(tt.pattern, tt.path); ok != tt.want {
			t.Errorf("%s: match(%q, %q) is %v", tt.name, tt.pattern, tt.path, ok)
		}
	}
	if !matchAny([]string{"services/$1/..."}, "services/history/internal", "history") {
		t.Error("$1 does not stand for the star")
	}
}
