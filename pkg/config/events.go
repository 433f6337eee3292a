package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// Event describes the data of custom events of one type (Tarko, Custom Event Types): a JSON Schema, here or in a file.
type Event struct {
	Schema map[string]any `yaml:"schema"`
	File   string         `yaml:"file"` // path relative to the configuration's folder; [Load] reads it into Schema
}

// readEvents reads the schemas that are in files.
func (c Config) readEvents(folder string) error {
	for _, name := range slices.Sorted(maps.Keys(c.Events)) {
		e := c.Events[name]
		if e.File == "" {
			continue
		}
		file := e.File
		if !filepath.IsAbs(file) {
			file = filepath.Join(folder, file)
		}
		text, err := read(file)
		if err == nil {
			err = json.Unmarshal(text, &e.Schema)
		}
		if err != nil {
			return fmt.Errorf("events.%s.file: %s: %w", name, file, err)
		}
		c.Events[name] = e
	}
	return nil
}

func (c checker) event(path, name string, e Event) {
	if _, err := event.NewCustom(name, nil); err != nil {
		c.report(path, "%v", err)
	}
	if (e.Schema == nil) == (e.File == "") {
		c.report(path, "needs a schema or a file, and not both; such as schema: {type: object, required: [rating]}")
	}
}
