package schemas_test

import (
	"flag"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/schemas"
	"github.com/goccy/go-yaml"
)

//go:generate go test . -run ^TestOpenAPIComponentsOfEventsAreCurrent$ -count=1 -update

var update = flag.Bool("update", false, "write the components of the events into openapi.yaml")

// The components of the events are between these lines of openapi.yaml.
const (
	generatedBegin = "    # Generated from event.json by go generate ./schemas. Do not edit.\n"
	generatedEnd   = "    # End of the generated components.\n"
)

func TestOpenAPIComponentsOfEventsAreCurrent(t *testing.T) {
	text := string(schemas.OpenAPI())
	before, rest, begun := strings.Cut(text, generatedBegin)
	_, after, ended := strings.Cut(rest, generatedEnd)
	if !begun || !ended {
		t.Fatalf("openapi.yaml has no lines %q and %q", generatedBegin, generatedEnd)
	}
	components, err := yaml.MarshalWithOptions(eventComponents(t), yaml.Indent(2), yaml.IndentSequence(true))
	if err != nil {
		t.Fatal(err)
	}
	var indented strings.Builder
	for line := range strings.Lines(string(components)) {
		indented.WriteString("    " + line)
	}
	want := before + generatedBegin + indented.String() + generatedEnd + after
	if want == text {
		return
	}
	if !*update {
		t.Fatal("openapi.yaml does not agree with schemas/events; run go generate ./schemas")
	}
	if err := os.WriteFile("openapi.yaml", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// eventComponents returns the components of OpenAPI 3.0 for the events that clients may see.
func eventComponents(t *testing.T) yaml.MapSlice {
	t.Helper()
	c := conversion{t: t, components: map[string]any{}}
	mapping, choices := yaml.MapSlice{}, []any{}
	for _, name := range event.Names() {
		if name.IsInternal() && name != event.NameToolOutput {
			continue
		}
		ref := "#/components/schemas/" + c.event(name)
		mapping = append(mapping, yaml.MapItem{Key: string(name), Value: ref})
		choices = append(choices, yaml.MapSlice{{Key: "$ref", Value: ref}})
	}
	all := yaml.MapSlice{{Key: "Event", Value: yaml.MapSlice{
		{Key: "description", Value: "Any event of today. Readers skip events of other names, and members that they do not know."},
		{Key: "oneOf", Value: choices},
		{Key: "discriminator", Value: yaml.MapSlice{{Key: "propertyName", Value: "event"}, {Key: "mapping", Value: mapping}}},
	}}}
	for _, name := range slices.Sorted(maps.Keys(c.components)) {
		all = append(all, yaml.MapItem{Key: name, Value: c.components[name]})
	}
	return all
}

// conversion converts JSON Schemas to components of OpenAPI 3.0, which has no const, no conditions, and no members next to $ref.
type conversion struct {
	t          *testing.T
	components map[string]any // by name
}

// event adds the component of an event and returns its name.
func (c conversion) event(name event.Name) string {
	if name == event.NameError {
		return "Error"
	}
	file := "events/" + string(name) + ".json"
	root := c.read(file)
	properties, required := c.flat(file, root)
	as := pascal(string(name)) + "Event"
	c.components[as] = yaml.MapSlice{
		{Key: "description", Value: value(root, "description")}, {Key: "type", Value: "object"},
		{Key: "properties", Value: properties}, {Key: "required", Value: required},
	}
	return as
}

// flat returns the members of an object together with those of the definitions in its allOf. A later one replaces an
// earlier one of the same name.
func (c conversion) flat(file string, object yaml.MapSlice) (properties yaml.MapSlice, required []any) {
	all, _ := value(object, "allOf").([]any)
	for _, part := range all {
		ref, ok := value(part.(yaml.MapSlice), "$ref").(string)
		if !ok {
			continue // a condition
		}
		more, needed := c.flat(c.follow(file, ref))
		properties, required = append(properties, more...), append(required, needed...)
	}
	own, _ := value(object, "properties").(yaml.MapSlice)
	for _, p := range own {
		p.Value = c.schema(file, p.Value.(yaml.MapSlice))
		properties = slices.DeleteFunc(properties, func(other yaml.MapItem) bool { return other.Key == p.Key })
		properties = append(properties, p)
	}
	needed, _ := value(object, "required").([]any)
	return properties, append(required, needed...)
}

// schema converts a schema within an event.
func (c conversion) schema(file string, from yaml.MapSlice) (to yaml.MapSlice) {
	for _, item := range from {
		switch item.Key {
		case "$ref":
			ref := "#/components/schemas/" + c.definition(file, item.Value.(string))
			if len(from) == 1 || ref == "#/components/schemas/Event" { // openapi-typescript loses the names in an allOf of the union
				return yaml.MapSlice{{Key: "$ref", Value: ref}}
			}
			to = append(to, yaml.MapItem{Key: "allOf", Value: []any{yaml.MapSlice{{Key: "$ref", Value: ref}}}})
		case "const":
			if value(from, "type") == nil {
				to = append(to, yaml.MapItem{Key: "type", Value: "string"})
			}
			to = append(to, yaml.MapItem{Key: "enum", Value: []any{item.Value}})
		case "enum":
			if value(from, "type") == nil {
				to = append(to, yaml.MapItem{Key: "type", Value: "string"})
			}
			to = append(to, item)
		case "properties":
			properties, _ := c.flat(file, from)
			to = append(to, yaml.MapItem{Key: "properties", Value: properties})
		case "items":
			to = append(to, yaml.MapItem{Key: "items", Value: c.schema(file, item.Value.(yaml.MapSlice))})
		case "type", "description", "required", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems":
			to = append(to, item)
		default:
			c.t.Errorf("%s: there is no rule that converts %v", file, item.Key)
		}
	}
	return to
}

// definition returns the name of the component for a definition, and adds the component if the document has no own one.
func (c conversion) definition(file, ref string) string {
	in, object := c.follow(file, ref)
	name := path.Base(ref)
	switch name {
	case "event.json":
		return "Event"
	case "continuationKind":
		return "ActionKind"
	case "id", "timestamp", "content", "usage", "finishReason", "inputContent", "inputPart", "objectRef", "actionResult":
		return pascal(name)
	}
	// With a prefix, because components such as InputMessage are those of requests, which refuse unknown members.
	as := "Event" + pascal(name)
	if _, ok := c.components[as]; !ok {
		c.components[as] = c.schema(in, object)
	}
	return as
}

// follow returns what ref, met in file, points at.
func (c conversion) follow(file, ref string) (string, yaml.MapSlice) {
	target, fragment, _ := strings.Cut(ref, "#")
	if target != "" {
		file = path.Join(path.Dir(file), target)
	}
	object := c.read(file)
	for step := range strings.SplitSeq(strings.Trim(fragment, "/"), "/") {
		if step != "" {
			object = value(object, step).(yaml.MapSlice)
		}
	}
	return file, object
}

// read parses a schema file and keeps the order of its members.
func (c conversion) read(file string) (root yaml.MapSlice) {
	c.t.Helper()
	if err := yaml.UnmarshalWithOptions(read(c.t, file), &root, yaml.UseOrderedMap()); err != nil {
		c.t.Fatalf("%s: %v", file, err)
	}
	return root
}

func value(object yaml.MapSlice, key string) any {
	for _, item := range object {
		if item.Key == key {
			return item.Value
		}
	}
	return nil
}

func pascal(name string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		out.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return out.String()
}
