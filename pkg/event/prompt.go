package event

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// Prompt is the question of an input for a client that shows texts and no forms: with the page to visit, and the values that
// the answer must have. With one value the answer may be that value, else it is a JSON object.
func (a ContinuationAction) Prompt() string {
	lines := []string{a.Question}
	if a.URL != "" {
		lines = append(lines, "Open "+a.URL+" and answer when that is done.")
	}
	var schema struct {
		Properties map[string]struct {
			Title       string   `json:"title"`
			Description string   `json:"description"`
			Type        string   `json:"type"`
			Enum        []string `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if len(a.Schema) == 0 || json.Unmarshal(a.Schema, &schema) != nil {
		return strings.Join(lines, "\n")
	}
	if len(schema.Properties) > 1 {
		lines = append(lines, "Answer with a JSON object:")
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		p := schema.Properties[name]
		line := fmt.Sprintf("%q: %s", name, p.Type)
		if len(p.Enum) > 0 {
			line = fmt.Sprintf("%q: one of %s", name, strings.Join(p.Enum, ", "))
		}
		if !slices.Contains(schema.Required, name) {
			line += ", optional"
		}
		if about := strings.TrimSpace(p.Title + " " + p.Description); about != "" {
			line += " (" + about + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}
