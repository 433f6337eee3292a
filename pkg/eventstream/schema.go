package eventstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schemas is a registry of event types: what an event of each looks like when it is written in one of the two forms, in
// JSON Schema 2020-12 (S0, Custom Event Types and Protocol Validation). It fetches nothing from anywhere. It is safe for
// concurrent use.
type Schemas struct {
	form Form

	mu     sync.RWMutex
	byType map[string]*jsonschema.Schema
}

// NewSchemas returns a registry of events in form that knows no type yet.
func NewSchemas(form Form) *Schemas {
	return &Schemas{form: form, byType: map[string]*jsonschema.Schema{}}
}

// Add adds the schema of a type, or puts it in the place of the one before.
func (s *Schemas) Add(kind string, schema json.RawMessage) error {
	const address = "eventstream:///schema"
	c := compiler()
	if err := addResource(c, address, schema); err != nil {
		return fmt.Errorf("schema of %s events: %w", kind, err)
	}
	return s.compile(c, kind, address)
}

// Read adds the schemas in the folder dir, where <type>.json is that of a type. They may refer to any other schema in
// files by its $id.
func (s *Schemas) Read(files fs.FS, dir string) error {
	c := compiler()
	addresses, err := load(c, files)
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(addresses)) {
		if path.Dir(file) != path.Clean(dir) {
			continue
		}
		if err := s.compile(c, strings.TrimSuffix(path.Base(file), ".json"), addresses[file]); err != nil {
			return err
		}
	}
	return nil
}

// load gives c every schema in files, which is every JSON file with an $id, and returns their addresses.
func load(c *jsonschema.Compiler, files fs.FS) (map[string]string, error) {
	addresses := map[string]string{}
	err := fs.WalkDir(files, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".json" {
			return err
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		address := idOf(text)
		if address == "" {
			return nil
		}
		addresses[file] = address
		if err := addResource(c, address, text); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read schemas: %w", err)
	}
	return addresses, nil
}

// idOf is the $id of a JSON text, "" for one without.
func idOf(text []byte) string {
	var schema struct {
		ID string `json:"$id"`
	}
	if err := jsonv2.Unmarshal(text, &schema); err != nil {
		return ""
	}
	return schema.ID
}

func compiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // knows no scheme
	return c
}

func addResource(c *jsonschema.Compiler, address string, text []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return c.AddResource(address, document)
}

func (s *Schemas) compile(c *jsonschema.Compiler, kind, address string) error {
	compiled, err := c.Compile(address)
	if err != nil {
		return fmt.Errorf("schema of %s events: %w", kind, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byType[kind] = compiled
	return nil
}

// Types lists the types that s knows, sorted.
func (s *Schemas) Types() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.byType))
}

// ErrNoSchema says that nobody has registered the type of an event.
var ErrNoSchema = errors.New("no schema is registered for events of this type")

// Invalid is what [Schemas.Validate] finds wrong with an event.
type Invalid struct {
	Type     string
	Problems []string // each with the place where it is, as a JSON pointer
}

// Error says everything that is wrong.
func (i *Invalid) Error() string {
	return fmt.Sprintf("a %s event does not fit its schema: %s", i.Type, strings.Join(i.Problems, "; "))
}

// Validate returns nil for an event that fits the schema of its type, an *[Invalid] for one that does not, and
// [ErrNoSchema] for one of an unknown type.
func (s *Schemas) Validate(e Event) error {
	line, err := s.form.Append(nil, e)
	if err != nil {
		return err
	}
	return s.ValidateJSON(e.Type, line)
}

// ValidateJSON is Validate of an event that is written already.
func (s *Schemas) ValidateJSON(kind string, line []byte) error {
	s.mu.RLock()
	schema := s.byType[kind]
	s.mu.RUnlock()
	if schema == nil {
		return fmt.Errorf("%s: %w", kind, ErrNoSchema)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		return &Invalid{Type: kind, Problems: []string{err.Error()}}
	}
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(value)); ok {
		return &Invalid{Type: kind, Problems: problems(wrong)}
	}
	return nil
}

// problems lists the places that are wrong.
func problems(wrong *jsonschema.ValidationError) []string {
	var list []string
	for _, unit := range wrong.BasicOutput().Errors {
		if unit.Error == nil {
			continue
		}
		list = append(list, strings.TrimPrefix(unit.InstanceLocation+": "+unit.Error.String(), ": "))
	}
	return list
}
