package archtest_test

import (
	"go/ast"
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

// maxMethods bounds the methods of an interface, those of embedded interfaces of this module included. It is also the limit
// of interfacebloat in .golangci.yml, which does not count embedded ones.
const maxMethods = 7

// iface is an interface type as its source declares it.
type iface struct {
	position string
	methods  []string
	embedded []string // folder and name of each embedded interface of this module
}

func TestInterfacesAreSmall(t *testing.T) {
	t.Parallel()
	all := interfaces(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if got := methodsOf(all, name); len(got) > maxMethods {
			t.Errorf("%s: interface %s has %d methods, want at most %d: declare what each user of it calls: %v",
				all[name].position, name, len(got), maxMethods, slices.Sorted(maps.Keys(got)))
		}
	}
}

// methodsOf returns the method set of an interface.
func methodsOf(all map[string]iface, name string) map[string]bool {
	methods := map[string]bool{}
	for _, m := range all[name].methods {
		methods[m] = true
	}
	for _, e := range all[name].embedded {
		maps.Copy(methods, methodsOf(all, e))
	}
	return methods
}

// interfaces returns the named interface types of all files that are not tests, by folder and name.
func interfaces(t *testing.T) map[string]iface {
	t.Helper()
	root := filepath.Join("..", "..")
	all := map[string]iface{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && file != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || isForeign(name)) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		return readInterfaces(all, filepath.ToSlash(dir), file)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readInterfaces(all map[string]iface, dir, file string) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	imports := importsOf(parsed)
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if body, ok := spec.Type.(*ast.InterfaceType); ok {
			i := readInterface(body, dir, imports)
			i.position = set.Position(spec.Pos()).String()
			all[dir+"."+spec.Name.Name] = i
		}
		return true
	})
	return nil
}

// importsOf returns the folders of the imported packages of this module, by the name that the file uses.
func importsOf(file *ast.File) map[string]string {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		folder, ours := strings.CutPrefix(name, module)
		if err != nil || !ours {
			continue
		}
		local := path.Base(folder)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imports[local] = folder
	}
	return imports
}

func readInterface(body *ast.InterfaceType, dir string, imports map[string]string) (i iface) {
	for _, field := range body.Methods.List {
		for _, name := range field.Names {
			i.methods = append(i.methods, name.Name)
		}
		switch embedded := field.Type.(type) {
		case *ast.Ident:
			i.embedded = append(i.embedded, dir+"."+embedded.Name)
		case *ast.SelectorExpr:
			if name, ok := embedded.X.(*ast.Ident); ok && imports[name.Name] != "" {
				i.embedded = append(i.embedded, imports[name.Name]+"."+embedded.Sel.Name)
			}
		}
	}
	return i
}

func TestMethodsOfEmbeddedInterfacesCount(t *testing.T) {
	t.Parallel()
	all := map[string]iface{
		"pkg/a.Reader":  {methods: []string{"Read", "Close"}},
		"pkg/b.Wider":   {methods: []string{"Write", "Close"}, embedded: []string{"pkg/a.Reader", "pkg/elsewhere.Unknown"}},
		"pkg/b.Widest":  {embedded: []string{"pkg/b.Wider"}},
		"pkg/b.Nothing": {},
	}
	for name, want := range map[string]int{"pkg/a.Reader": 2, "pkg/b.Wider": 3, "pkg/b.Widest": 3, "pkg/b.Nothing": 0} {
		if got := len(methodsOf(all, name)); got != want {
			t.Errorf("%s: got %d methods, want %d", name, got, want)
		}
	}
}
