package archtest_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// quoted matches a qualified name in backticks: a package or type, and what it declares.
	quoted = regexp.MustCompile("`([A-Za-z]\\w*)\\.([A-Za-z]\\w*)`")
	// exportedName matches the same for an exported name, which is not a key of the configuration.
	exportedName = regexp.MustCompile("`([a-z]\\w*)\\.([A-Z]\\w*[a-z]\\w*)`")
)

// TestDocumentsNameExistingCode checks the Go names of documents: all names in the column "where" of docs/security.md, and the
// exported names of our packages in the other documents.
func TestDocumentsNameExistingCode(t *testing.T) {
	t.Parallel()
	names := declaredNames(t)
	for line := range strings.SplitSeq(read(t, "../../docs/security.md"), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[len(cells)-3], -1) {
			if !names[m[1]][m[2]] && !isSetting(m[0]) {
				t.Errorf("docs/security.md: %s does not exist", m[0])
			}
		}
	}
	for _, file := range documents(t) {
		for _, m := range exportedName.FindAllStringSubmatch(read(t, file), -1) {
			if scope := names[m[1]]; scope != nil && !scope[m[2]] {
				t.Errorf("%s: %s does not exist", file, m[0])
			}
		}
	}
}

// isSetting reports whether a name in backticks is a key of the configuration.
func isSetting(name string) bool {
	return strings.HasPrefix(name, "`gateway.") || strings.HasPrefix(name, "`hub.")
}

// documents are the documents that describe the present state. The changelog and the decisions also describe earlier ones.
func documents(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	return append(pages, "../../README.md", "../../ARCHITECTURE.md", "../../CONTRIBUTING.md")
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declaredNames returns the names that each package, and each type, declares. Packages and types with the same name
// share an entry.
func declaredNames(t *testing.T) map[string]map[string]bool {
	t.Helper()
	names := map[string]map[string]bool{}
	add := func(scope, name string) {
		if names[scope] == nil {
			names[scope] = map[string]bool{}
		}
		names[scope][name] = true
	}
	err := filepath.WalkDir("../..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && file != "../.." && (strings.HasPrefix(entry.Name(), ".") || isForeign(entry.Name())) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(file) != ".go" {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := strings.TrimSuffix(parsed.Name.Name, "_test")
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				add(pkg, d.Name.Name)
				if d.Recv != nil {
					add(typeName(d.Recv.List[0].Type), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					addSpec(add, pkg, s)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func addSpec(add func(scope, name string), pkg string, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			add(pkg, n.Name)
		}
	case *ast.TypeSpec:
		add(pkg, s.Name.Name)
		var fields *ast.FieldList
		switch kind := s.Type.(type) {
		case *ast.StructType:
			fields = kind.Fields
		case *ast.InterfaceType:
			fields = kind.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, n := range f.Names {
				add(s.Name.Name, n.Name)
			}
		}
	}
}

// typeName returns the name of a receiver's type.
func typeName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
