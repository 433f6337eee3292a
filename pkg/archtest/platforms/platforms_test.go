package platforms_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// TestTheBinariesCompileOnEverySystem type-checks what the binaries consist of, from source: that finds what a build finds,
// except errors of the linker, in a tenth of its time, since a build compiles the standard library and all modules once
// for each system. `make cross` builds them.
func TestTheBinariesCompileOnEverySystem(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	// One after another, since each needs some hundred megabytes.
	for _, platform := range []string{
		"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64",
	} {
		t.Run(platform, func(t *testing.T) {
			system, processor, _ := strings.Cut(platform, "/")
			patterns, tests := []string{"./cmd/agentbus", "./services/.../cmd"}, platform == "darwin/arm64"
			if tests {
				patterns = []string{"./..."} // `make test` works on macOS too
			}
			loaded, err := packages.Load(&packages.Config{
				Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
					packages.NeedDeps | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedModule,
				Dir:       root,
				Tests:     tests,
				Env:       append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+processor),
				ParseFile: parse(root),
			}, patterns...)
			if err != nil {
				t.Fatal(err)
			}
			checked := 0
			packages.Visit(loaded, nil, func(p *packages.Package) {
				if p.Module == nil || !p.Module.Main || strings.HasSuffix(p.ID, ".test") { // a main that the go command wrote
					return
				}
				checked++
				for _, mistake := range p.Errors {
					t.Errorf("%s: %v", p.PkgPath, mistake)
				}
				if tests { // this loads all packages
					exportsStandardTypes(t, p)
					usesOneJSON(t, p)
				}
			})
			if checked < 50 {
				t.Errorf("%d packages were checked, want those of all binaries", checked)
			}
		})
	}
}

// parse reads a file; of those outside root, whose functions are not checked, without the bodies of functions.
func parse(root string) func(*token.FileSet, string, []byte) (*ast.File, error) {
	return func(files *token.FileSet, name string, text []byte) (*ast.File, error) {
		file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		if file == nil || strings.HasPrefix(name, root+string(filepath.Separator)) {
			return file, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
		}
		return file, err
	}
}
