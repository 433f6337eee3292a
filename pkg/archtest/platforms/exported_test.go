package platforms_test

import (
	"go/types"
	"path"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/agentbus/agentbus/"

// exportsStandardTypes reports types of other modules in the exported API of a package that other modules can import. A
// user of the package would depend on their version.
func exportsStandardTypes(t *testing.T, p *packages.Package) {
	t.Helper()
	name, public := strings.CutPrefix(p.PkgPath, module+"pkg/")
	if !public || p.Name == "main" || strings.HasSuffix(p.ID, "]") || strings.Contains(name, "internal/") ||
		strings.HasSuffix(path.Base(name), "test") { // internal/… of this module, and support of its tests
		return
	}
	scope := p.Types.Scope()
	for _, name := range scope.Names() {
		object := scope.Lookup(name)
		if !object.Exported() {
			continue
		}
		a := api{t: t, where: p.PkgPath + "." + name, seen: map[types.Type]bool{}}
		named, ok := object.Type().(*types.Named)
		if _, defines := object.(*types.TypeName); !ok || !defines {
			a.walk(object.Type())
			continue
		}
		a.walk(named.Underlying())
		for method := range named.Methods() {
			if method.Exported() {
				a.member(method.Name(), method.Type())
			}
		}
	}
}

// api is the type of one exported name.
type api struct {
	t     *testing.T
	where string
	seen  map[types.Type]bool
}

func (a api) member(name string, of types.Type) {
	a.where += "." + name
	a.walk(of)
}

func (a api) walk(of types.Type) {
	if of == nil || a.seen[of] {
		return
	}
	a.seen[of] = true
	switch of := of.(type) {
	case *types.Alias:
		a.named(of.Obj())
		a.walk(of.Rhs())
	case *types.Named:
		a.named(of.Obj())
		for argument := range of.TypeArgs().Types() {
			a.walk(argument)
		}
	case interface{ Elem() types.Type }: // a pointer, slice, array or channel
		a.walk(of.Elem())
		if m, ok := of.(*types.Map); ok {
			a.walk(m.Key())
		}
	case *types.Signature:
		a.walk(of.Params())
		a.walk(of.Results())
		for parameter := range of.TypeParams().TypeParams() {
			a.walk(parameter.Constraint())
		}
	case *types.Tuple:
		for v := range of.Variables() {
			a.walk(v.Type())
		}
	case *types.Struct:
		for f := range of.Fields() {
			if f.Exported() || f.Embedded() {
				a.member(f.Name(), f.Type())
			}
		}
	case *types.Interface:
		for m := range of.Methods() {
			if m.Exported() {
				a.member(m.Name(), m.Type())
			}
		}
	}
}

func (a api) named(object *types.TypeName) {
	if object.Pkg() == nil {
		return // a type of the language, such as error
	}
	from := object.Pkg().Path()
	first, _, _ := strings.Cut(from, "/")
	if !strings.Contains(first, ".") || strings.HasPrefix(from, module) {
		return
	}
	if strings.HasPrefix(a.where, module+"pkg/telemetry.") && from == "go.opentelemetry.io/otel/attribute" {
		return // names of attributes, for the instrumentation of the services
	}
	a.t.Errorf("%s has the type %s.%s: an exported API has types of the standard library and of this module alone", a.where, from, object.Name())
}

// usesOneJSON reports functions of encoding/json. They ignore the option embed, so that they would lose unknown members
// of events and requests; github.com/go-json-experiment/json does not.
func usesOneJSON(t *testing.T, p *packages.Package) {
	t.Helper()
	for _, allowed := range []string{
		"pkg/backend/internal/upstream", "pkg/tool/mcp", "services/hub/internal/mcp/mcptest", // the SDKs use it
		"pkg/skew", // no types of ours
	} {
		if strings.HasPrefix(p.PkgPath, module+allowed) {
			return
		}
	}
	for identifier, object := range p.TypesInfo.Uses {
		at := p.Fset.Position(identifier.Pos())
		if object.Pkg() != nil && object.Pkg().Path() == "encoding/json" && object.Parent() == object.Pkg().Scope() &&
			object.Name() != "RawMessage" && !strings.HasSuffix(at.Filename, "_test.go") {
			t.Errorf("%s: json.%s of encoding/json; use github.com/go-json-experiment/json, imported as jsonv2", at, object.Name())
		}
	}
}
