package schemas_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/go-json-experiment/json"
)

// records are the types of pkg/record under the names of their schemas.
func records() map[string]reflect.Type {
	return map[string]reflect.Type{
		"accepted":      reflect.TypeFor[record.Accepted](),
		"thread":        reflect.TypeFor[record.Thread](),
		"session":       reflect.TypeFor[record.Session](),
		"start":         reflect.TypeFor[record.Start](),
		"abort":         reflect.TypeFor[record.Abort](),
		"steer":         reflect.TypeFor[record.Steer](),
		"tool_call":     reflect.TypeFor[record.ToolCall](),
		"delivery":      reflect.TypeFor[record.Delivery](),
		"tool_started":  reflect.TypeFor[record.ToolStarted](),
		"tool_result":   reflect.TypeFor[record.ToolResult](),
		"tool_progress": reflect.TypeFor[record.ToolProgress](),
	}
}

// schemaDocuments parses every JSON Schema.
func schemaDocuments(t *testing.T) documents {
	t.Helper()
	docs := documents{}
	for _, file := range files(t, ".") {
		var doc any
		if err := json.Unmarshal(read(t, file), &doc); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		docs[file] = doc
	}
	return docs
}

func TestEventTypesAgreeWithTheirSchemas(t *testing.T) {
	t.Parallel()
	c := comparison{schemaDocuments(t), goConstants(t, "event", "apierr")}
	for _, name := range event.Names() {
		e, err := event.Decode([]byte(`{"event":"` + string(name) + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		file := "events/" + string(name) + ".json"
		c.compare(t, string(name), reflect.TypeOf(e.Body), node{file, c.docs[file]}, "event", "id", "requestId", "timestamp")
		said, _ := c.docs.shape(t, node{file, c.docs[file]}).properties["event"].value.(map[string]any)
		if said["const"] != string(name) {
			t.Errorf("%s: the schema is for event %v", file, said["const"])
		}
	}
}

func TestRequestTypeAgreesWithItsSchema(t *testing.T) {
	t.Parallel()
	c := comparison{schemaDocuments(t), goConstants(t, "event", "apierr")}
	c.compare(t, "request", reflect.TypeFor[event.AgentRequest](), node{"request.json", c.docs["request.json"]})
}

func TestRecordTypesAgreeWithTheirSchemas(t *testing.T) {
	t.Parallel()
	c := comparison{schemaDocuments(t), goConstants(t, "event", "apierr")}
	for name, typ := range records() {
		file := "commands/" + name + ".json"
		c.compare(t, name, typ, node{file, c.docs[file]})
	}
}

func TestEveryRecordHasASchemaAndAnExample(t *testing.T) {
	t.Parallel()
	names := []string{"Model", "Caller", "Ended", "LogID", "ThreadRecord", "ToolAsk"} // parts of records, and keys that are not stored as JSON
	for _, typ := range records() {
		names = append(names, typ.Name())
	}
	slices.Sort(names)
	if declared := goStructs(t, "record"); !slices.Equal(names, declared) {
		t.Errorf("pkg/record declares %v, this test knows %v", declared, names)
	}
	for _, dir := range []string{"commands", "commands/examples"} {
		var described []string
		for _, file := range files(t, "commands") {
			if filepath.ToSlash(filepath.Dir(file)) == dir {
				described = append(described, subject(file))
			}
		}
		if got, want := union(described, nil), slices.Sorted(maps.Keys(records())); !slices.Equal(got, want) {
			t.Errorf("schemas/%s describes %v, want %v", dir, got, want)
		}
	}
}

func TestErrorCodesAreThoseOfTheSchema(t *testing.T) {
	t.Parallel()
	docs := schemaDocuments(t)
	s := docs.shape(t, docs.shape(t, node{"events/error.json", docs["events/error.json"]}).properties["code"])
	var got []apierr.Code
	for _, code := range s.enum {
		got = append(got, apierr.Code(code.(string)))
	}
	if !slices.Equal(got, apierr.Codes()) {
		t.Errorf("the schema lists %v, fault.Codes() is %v", got, apierr.Codes())
	}
}

func TestContentTypesAreThoseOfTheSchema(t *testing.T) {
	t.Parallel()
	docs := schemaDocuments(t)
	content := docs.shape(t, docs.follow(t, "common.json", "#/$defs/content"))
	got := docs.shape(t, content.properties["type"]).enum
	want := []any{event.ContentText, event.ContentThinking, event.ContentToolUse, event.ContentToolResult}
	if !slices.Equal(got, want) {
		t.Errorf("the schema lists %v, the constants are %v", got, want)
	}
}

// goConstants lists the values of the string constants of each named type of the packages, sorted.
func goConstants(t *testing.T, packages ...string) map[string][]string {
	t.Helper()
	constants := map[string][]string{}
	for _, pkg := range packages {
		for _, spec := range goSpecs[*ast.ValueSpec](t, pkg) {
			typ, ok := spec.Type.(*ast.Ident)
			if !ok {
				continue
			}
			for _, value := range spec.Values {
				literal, ok := value.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					continue
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				constants[typ.Name] = append(constants[typ.Name], text)
			}
		}
	}
	for _, values := range constants {
		slices.Sort(values)
	}
	return constants
}

// goStructs lists the exported structs of a package, sorted.
func goStructs(t *testing.T, pkg string) []string {
	t.Helper()
	var names []string
	for _, spec := range goSpecs[*ast.TypeSpec](t, pkg) {
		if _, ok := spec.Type.(*ast.StructType); ok && spec.Name.IsExported() {
			names = append(names, spec.Name.Name)
		}
	}
	slices.Sort(names)
	return names
}

// goSpecs parses the sources of a package below pkg and returns its declarations of one sort.
func goSpecs[S ast.Spec](t *testing.T, pkg string) []S {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join("..", "pkg", pkg, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var found []S
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		text, err := os.ReadFile(source)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), source, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				if s, ok := spec.(S); ok {
					found = append(found, s)
				}
			}
		}
	}
	return found
}
