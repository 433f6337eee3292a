package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// position is a position in the text.
type position struct{ line, column int }

// decoder fills Go values from a YAML tree and continues after a mistake. The decoder of the library stops at the first
// one.
type decoder struct {
	mistakes  Mistakes
	positions map[string]position // of every path that the file mentions
}

// parseYAML returns the root of the one document in data, nil when there is nothing in it.
func parseYAML(data []byte) (ast.Node, *Mistake) {
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // duplicates: see fields
	if err != nil {
		m := Mistake{Line: 1, Column: 1, What: "not YAML: " + err.Error()}
		if syntax, ok := err.(yaml.Error); ok { //nolint:errorlint // the library returns it bare
			p := positionOf(syntax.GetToken())
			m = Mistake{Line: p.line, Column: p.column, What: "not YAML: " + syntax.GetMessage()}
		}
		return nil, &m
	}
	var roots []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			roots = append(roots, doc.Body)
		}
	}
	switch len(roots) {
	case 0:
		return nil, nil
	case 1:
		return roots[0], nil
	default:
		p := positionOf(roots[1].GetToken())
		return nil, &Mistake{Line: p.line, Column: p.column, What: "a second YAML document; put everything into one"}
	}
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

func (d *decoder) decodeRoot(root ast.Node, c *Config) {
	d.decode(root, reflect.ValueOf(c).Elem(), "")
}

// report notes a mistake at the place of path, or of its nearest ancestor that the file mentions.
func (d *decoder) report(path, format string, args ...any) {
	at := position{1, 1}
	for p := path; p != ""; p = parent(p) {
		if found, ok := d.positions[p]; ok {
			at = found
			break
		}
	}
	d.reportAt(at, path, format, args...)
}

func (d *decoder) reportAt(at position, path, format string, args ...any) {
	d.mistakes = append(d.mistakes, Mistake{Line: at.line, Column: at.column, Path: path, What: fmt.Sprintf(format, args...)})
}

func (d *decoder) decode(n ast.Node, into reflect.Value, path string) {
	at := positionOf(n.GetToken())
	switch n.(type) {
	case *ast.NullNode:
		return // as if it were absent
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.reportAt(at, path, "anchors, aliases and tags are not read here; write the value out")
		return
	}
	if into.Type() == reflect.TypeFor[Duration]() {
		d.duration(n, into, path)
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.decode(n, into.Elem(), path)
	case reflect.Struct:
		d.structure(n, into, path)
	case reflect.Map:
		d.mapping(n, into, path)
	case reflect.Slice:
		d.sequence(n, into, path)
	case reflect.Interface:
		d.free(n, into, path)
	default:
		d.scalar(n, into, path)
	}
}

// pairs yields the entries of a mapping, and reports nodes of other kinds and duplicate names.
func (d *decoder) pairs(n ast.Node, path string) []*ast.MappingValueNode {
	var all []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		all = n.Values
	case *ast.MappingValueNode:
		all = []*ast.MappingValueNode{n}
	default:
		d.reportAt(positionOf(n.GetToken()), path, "is %s; a mapping of names to values belongs here", kind(n))
		return nil
	}
	seen := map[string]position{}
	return slices.DeleteFunc(slices.Clone(all), func(v *ast.MappingValueNode) bool {
		at, name := positionOf(v.Key.GetToken()), keyName(v)
		if v.Key.IsMergeKey() {
			d.reportAt(at, path, "merge keys are not read here; write the values out")
			return true
		}
		if first, ok := seen[name]; ok {
			d.reportAt(at, join(path, name), "is here twice, first in line %d; remove one", first.line)
			return true
		}
		seen[name] = at
		d.positions[join(path, name)] = at
		return false
	})
}

func keyName(v *ast.MappingValueNode) string {
	if s, ok := v.Key.(*ast.StringNode); ok {
		return s.Value
	}
	return v.Key.GetToken().Value
}

func (d *decoder) structure(n ast.Node, into reflect.Value, path string) {
	fields := map[string]int{}
	var names []string
	for i := range into.NumField() {
		name := into.Type().Field(i).Tag.Get("yaml")
		fields[name] = i
		names = append(names, name)
	}
	for _, pair := range d.pairs(n, path) {
		name := keyName(pair)
		i, ok := fields[name]
		if !ok {
			d.reportAt(positionOf(pair.Key.GetToken()), path, "unknown field %q; %s", name, fieldCure(name, names))
			continue
		}
		d.decode(pair.Value, into.Field(i), join(path, name))
	}
}

// fieldCure is as [cure], and points from fields that would contain a secret to those that contain its name.
func fieldCure(name string, names []string) string {
	const byName = "apiKeyEnv"
	switch strings.ToLower(strings.ReplaceAll(name, "_", "")) {
	case "apikey", "key", "token":
		if slices.Contains(names, byName) {
			return fmt.Sprintf("write %s: NAME, where the environment variable NAME contains the key, and remove the key from the file", byName)
		}
	}
	return cure(name, names)
}

func (d *decoder) mapping(n ast.Node, into reflect.Value, path string) {
	into.Set(reflect.MakeMap(into.Type()))
	for _, pair := range d.pairs(n, path) {
		name := keyName(pair)
		value := reflect.New(into.Type().Elem()).Elem()
		d.decode(pair.Value, value, join(path, name))
		into.SetMapIndex(reflect.ValueOf(name), value)
	}
}

func (d *decoder) sequence(n ast.Node, into reflect.Value, path string) {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		d.reportAt(positionOf(n.GetToken()), path, "is %s; a list belongs here, such as [a, b]", kind(n))
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), 0, len(list.Values))) // an empty list differs from an absent one
	for i, item := range list.Values {
		at := path + "[" + strconv.Itoa(i) + "]"
		d.positions[at] = positionOf(item.GetToken())
		value := reflect.New(into.Type().Elem()).Elem()
		d.decode(item, value, at)
		into.Set(reflect.Append(into, value))
	}
}

// free decodes a value that may be anything, such as a part of a JSON Schema.
func (d *decoder) free(n ast.Node, into reflect.Value, path string) {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		value := reflect.New(reflect.TypeFor[map[string]any]()).Elem()
		d.mapping(n, value, path)
		into.Set(value)
	case *ast.SequenceNode:
		value := reflect.New(reflect.TypeFor[[]any]()).Elem()
		d.sequence(n, value, path)
		into.Set(value)
	case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.BoolNode:
		into.Set(reflect.ValueOf(scalarOf(n)))
	case *ast.FloatNode:
		into.Set(reflect.ValueOf(n.Value)) // finite: .nan and .inf are separate kinds of nodes
	default:
		d.reportAt(positionOf(n.GetToken()), path, "is %s, which JSON does not have", kind(n))
	}
}

func (d *decoder) scalar(n ast.Node, into reflect.Value, path string) {
	at := positionOf(n.GetToken())
	value := reflect.ValueOf(scalarOf(n))
	switch into.Kind() {
	case reflect.String:
		if value.IsValid() && value.Kind() == reflect.String {
			into.SetString(value.String())
			return
		}
		d.reportAt(at, path, "is %s; a text belongs here%s", kind(n), quoteHint(n))
	case reflect.Bool:
		if value.IsValid() && value.Kind() == reflect.Bool {
			into.SetBool(value.Bool())
			return
		}
		d.reportAt(at, path, "is %s; true or false belongs here", kind(n))
	case reflect.Int, reflect.Int64:
		whole, ok := wholeNumber(value)
		if ok && !into.OverflowInt(whole) {
			into.SetInt(whole)
			return
		}
		d.reportAt(at, path, "is %s; a whole number belongs here", kind(n))
	default: // float64: Config has no other kinds, and TestEveryKindIsDecoded keeps it so
		if value.IsValid() && value.CanConvert(into.Type()) && value.Kind() != reflect.String {
			into.Set(value.Convert(into.Type()))
			return
		}
		d.reportAt(at, path, "is %s; a number belongs here", kind(n))
	}
}

func (d *decoder) duration(n ast.Node, into reflect.Value, path string) {
	text, _ := scalarOf(n).(string)
	parsed, err := time.ParseDuration(text)
	if err != nil {
		d.reportAt(positionOf(n.GetToken()), path, "is %s; a duration belongs here, such as 30s or 10m", kind(n))
		return
	}
	into.SetInt(int64(parsed))
}

// scalarOf returns the string, int64, uint64, float64 or bool that n is, or nil.
func scalarOf(n ast.Node) any {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.IntegerNode:
		return n.Value
	case *ast.FloatNode:
		return n.Value
	case *ast.BoolNode:
		return n.Value
	default:
		return nil
	}
}

func wholeNumber(v reflect.Value) (int64, bool) {
	switch {
	case !v.IsValid():
		return 0, false
	case v.CanInt():
		return v.Int(), true
	case v.CanUint():
		return int64(v.Uint()), v.Uint() <= math.MaxInt64 //nolint:gosec // the second result says whether it fits
	default:
		return 0, false
	}
}

// kind names what n is, for people.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		text, _ := scalarOf(n).(string)
		return fmt.Sprintf("the text %.40q", text)
	default:
		return fmt.Sprintf("%.40s", n.GetToken().Value)
	}
}

func quoteHint(n ast.Node) string {
	if scalarOf(n) == nil {
		return ""
	}
	return fmt.Sprintf(", write %q", n.GetToken().Value)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func parent(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' || path[i] == '[' {
			return path[:i]
		}
	}
	return ""
}
