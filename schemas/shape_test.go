package schemas_test

import (
	"encoding/json"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko"
)

// documents are parsed schema files, so that a $ref can be followed from any of them.
type documents map[string]any

// node is a place in a document.
type node struct {
	file  string
	value any
}

// shape is what a node says after its references and its allOf are merged.
type shape struct {
	kind       string // type
	format     string
	properties map[string]node
	required   []string
	enum       []any
	items      node
	oneOf      []node
}

// shape merges the schema at n.
func (d documents) shape(t *testing.T, n node) shape {
	t.Helper()
	s := shape{properties: map[string]node{}}
	d.merge(t, &s, n)
	return s
}

func (d documents) merge(t *testing.T, s *shape, n node) {
	t.Helper()
	object, ok := n.value.(map[string]any)
	if !ok {
		t.Fatalf("%s: %v is not a schema", n.file, n.value)
	}
	if ref, ok := object["$ref"].(string); ok {
		d.merge(t, s, d.follow(t, n.file, ref))
	}
	all, _ := object["allOf"].([]any)
	for _, part := range all {
		d.merge(t, s, node{n.file, part})
	}
	properties, _ := object["properties"].(map[string]any)
	for name, value := range properties {
		s.properties[name] = node{n.file, value}
	}
	required, _ := object["required"].([]any)
	for _, name := range required {
		s.required = append(s.required, name.(string))
	}
	if kind, ok := object["type"].(string); ok {
		s.kind = kind
	}
	if format, ok := object["format"].(string); ok {
		s.format = format
	}
	if enum, ok := object["enum"].([]any); ok {
		s.enum = enum
	}
	if items, ok := object["items"]; ok {
		s.items = node{n.file, items}
	}
	choices, _ := object["oneOf"].([]any)
	for _, choice := range choices {
		s.oneOf = append(s.oneOf, node{n.file, choice})
	}
}

// follow returns what ref, met in file, points at.
func (d documents) follow(t *testing.T, file, ref string) node {
	t.Helper()
	target, fragment, _ := strings.Cut(ref, "#")
	if target != "" {
		file = path.Join(path.Dir(file), target)
	}
	value, ok := d[file]
	if !ok {
		t.Fatalf("$ref %q leads to %s, which is not there", ref, file)
	}
	for step := range strings.SplitSeq(strings.Trim(fragment, "/"), "/") {
		if step == "" {
			continue
		}
		object, _ := value.(map[string]any)
		if value, ok = object[step]; !ok {
			t.Fatalf("$ref %q of %s leads nowhere", ref, file)
		}
	}
	return node{file, value}
}

// comparison walks a Go type and a schema side by side.
type comparison struct {
	docs      documents
	constants map[string][]string // by type, see goConstants
}

// compare reports every difference between the JSON of a Go type and a schema. Members named in extra are the
// schema's own.
func (c comparison) compare(t *testing.T, where string, typ reflect.Type, n node, extra ...string) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	s := c.docs.shape(t, n)
	switch typ {
	case reflect.TypeFor[json.RawMessage]():
		return // any JSON: the schema may narrow it
	case reflect.TypeFor[time.Time]():
		wantKind(t, where, s, "string")
		if s.format != "date-time" {
			t.Errorf("%s: the format is %q, want date-time", where, s.format)
		}
		return
	case reflect.TypeFor[event.InputContent]():
		c.compareContent(t, where, reflect.TypeFor[[]event.InputPart](), s)
		return
	case reflect.TypeFor[tarko.Content]():
		c.compareContent(t, where, reflect.TypeFor[[]tarko.Part](), s)
		return
	case reflect.TypeFor[[]byte]():
		wantKind(t, where, s, "string")
		return
	}
	switch typ.Kind() {
	case reflect.Struct:
		c.compareStruct(t, where, typ, s, extra)
	case reflect.Slice:
		wantKind(t, where, s, "array")
		c.compare(t, where+"[]", typ.Elem(), s.items)
	case reflect.String:
		c.compareString(t, where, typ, s)
	case reflect.Bool:
		wantKind(t, where, s, "boolean")
	case reflect.Float64:
		wantKind(t, where, s, "number")
	case reflect.Int, reflect.Int64, reflect.Uint64:
		wantKind(t, where, s, "integer")
	default:
		t.Errorf("%s: no rule for Go type %s", where, typ)
	}
}

func (c comparison) compareStruct(t *testing.T, where string, typ reflect.Type, s shape, extra []string) {
	t.Helper()
	wantKind(t, where, s, "object")
	fields := members(typ)
	names := slices.Sorted(maps.Keys(fields))
	if got, want := slices.Sorted(maps.Keys(s.properties)), union(names, extra); !slices.Equal(got, want) {
		t.Errorf("%s: the schema has members %v, the Go type %s has %v", where, got, typ, want)
	}
	var required []string
	for _, name := range names {
		if !fields[name].optional {
			required = append(required, name)
		}
	}
	got := slices.DeleteFunc(union(s.required, nil), func(name string) bool { return slices.Contains(extra, name) })
	if !slices.Equal(got, required) {
		t.Errorf("%s: the schema requires %v, the Go type %s always writes %v", where, got, typ, required)
	}
	for _, name := range names {
		if property, ok := s.properties[name]; ok {
			c.compare(t, where+"."+name, fields[name].typ, property)
		}
	}
}

// compareString holds the constants of a Go type against an enum. A type without constants is free text.
func (c comparison) compareString(t *testing.T, where string, typ reflect.Type, s shape) {
	t.Helper()
	want := c.constants[typ.Name()]
	if typ.Name() == "string" || len(want) == 0 {
		wantKind(t, where, s, "string")
		return
	}
	var got []string
	for _, v := range s.enum {
		got = append(got, v.(string))
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%s: the enum is %v, the constants of %s are %v", where, got, typ, want)
	}
}

func (c comparison) compareContent(t *testing.T, where string, parts reflect.Type, s shape) {
	t.Helper()
	if len(s.oneOf) != 2 {
		t.Errorf("%s: want one of a string and an array of parts", where)
		return
	}
	wantKind(t, where, c.docs.shape(t, s.oneOf[0]), "string")
	c.compare(t, where, parts, s.oneOf[1])
}

func wantKind(t *testing.T, where string, s shape, kind string) {
	t.Helper()
	if s.kind != kind {
		t.Errorf("%s: the schema's type is %q, want %q", where, s.kind, kind)
	}
}

// member is one JSON member of a struct.
type member struct {
	typ      reflect.Type
	optional bool
}

// members lists the JSON members of a struct, those of embedded structs among them.
func members(typ reflect.Type) map[string]member {
	all := map[string]member{}
	for field := range typ.Fields() {
		tag := field.Tag.Get("json")
		if field.Anonymous && tag == "" {
			maps.Copy(all, members(field.Type))
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" || name == "" {
			continue
		}
		all[name] = member{field.Type, strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")}
	}
	return all
}

func union(a, b []string) []string {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

func newOf(typ reflect.Type) any { return reflect.New(typ).Interface() }
