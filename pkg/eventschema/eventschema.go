// Package eventschema validates events of named types against JSON Schemas, draft 2020-12.
package eventschema

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

// Registry has the schemas of event types. It loads nothing over the network. It is safe for concurrent use.
type Registry struct {
	mu     sync.RWMutex
	byType map[string]*jsonschema.Schema
}

// New returns an empty registry.
func New() *Registry { return &Registry{byType: map[string]*jsonschema.Schema{}} }

// Add sets the schema of a type.
func (r *Registry) Add(kind string, schema json.RawMessage) error {
	const address = "eventschema:///schema"
	c := compiler()
	if err := addResource(c, address, schema); err != nil {
		return fmt.Errorf("schema of %s events: %w", kind, err)
	}
	return r.compile(c, kind, address)
}

// Read adds the schemas of the folder dir of files; <type>.json is the schema of a type. A schema may refer to each schema in
// files by its $id.
func (r *Registry) Read(files fs.FS, dir string) error {
	c := compiler()
	addresses, err := load(c, files)
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(addresses)) {
		if path.Dir(file) != path.Clean(dir) {
			continue
		}
		if err := r.compile(c, strings.TrimSuffix(path.Base(file), ".json"), addresses[file]); err != nil {
			return err
		}
	}
	return nil
}

// load adds each JSON file with an $id to c, and returns the addresses by file.
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

// idOf returns the $id of a schema; "" = none.
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
	c.UseLoader(jsonschema.SchemeURLLoader{}) // without a scheme: no schema is loaded by its address
	return c
}

func addResource(c *jsonschema.Compiler, address string, text []byte) error {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return c.AddResource(address, document)
}

func (r *Registry) compile(c *jsonschema.Compiler, kind, address string) error {
	compiled, err := c.Compile(address)
	if err != nil {
		return fmt.Errorf("schema of %s events: %w", kind, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byType[kind] = compiled
	return nil
}

// Types lists the types that have a schema, sorted.
func (r *Registry) Types() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Sorted(maps.Keys(r.byType))
}

// ErrNoSchema means that the type of an event has no schema.
var ErrNoSchema = errors.New("no schema is registered for events of this type")

// Invalid is the error of an event that does not match its schema.
type Invalid struct {
	Type     string
	Problems []string // each begins with a JSON pointer
}

// Error lists all problems.
func (i *Invalid) Error() string {
	return fmt.Sprintf("a %s event does not fit its schema: %s", i.Type, strings.Join(i.Problems, "; "))
}

// Validate checks the JSON of an event of a type. It returns nil if the event is valid, an *[Invalid] if it is not, and
// [ErrNoSchema] if the type has no schema.
func (r *Registry) Validate(kind string, text []byte) error {
	r.mu.RLock()
	schema := r.byType[kind]
	r.mu.RUnlock()
	if schema == nil {
		return fmt.Errorf("%s: %w", kind, ErrNoSchema)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return &Invalid{Type: kind, Problems: []string{err.Error()}}
	}
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](schema.Validate(value)); ok {
		return &Invalid{Type: kind, Problems: problems(wrong)}
	}
	return nil
}

// problems lists the errors of a validation with their positions. The errors that have no cause are the reasons; those
// above them only name the schemas that failed because of them.
func problems(wrong *jsonschema.ValidationError) []string {
	if len(wrong.Causes) == 0 {
		return []string{problem(wrong)}
	}
	var list []string
	for _, cause := range wrong.Causes {
		for _, one := range problems(cause) {
			if !slices.Contains(list, one) {
				list = append(list, one)
			}
		}
	}
	return list
}

func problem(wrong *jsonschema.ValidationError) string {
	text := "it does not fit"
	unit := wrong.BasicOutput()
	if unit.Error != nil {
		text = unit.Error.String()
	}
	return strings.TrimPrefix(unit.InstanceLocation+": "+text, ": ")
}
