package eventstream

import (
	"github.com/agentbus/agentbus/pkg/eventschema"
)

// Schemas has the JSON Schemas of event types, for events in one of the two forms. It is safe for concurrent use.
type Schemas struct {
	*eventschema.Registry
	form Form
}

// NewSchemas returns an empty registry for events in form.
func NewSchemas(form Form) *Schemas { return &Schemas{eventschema.New(), form} }

// Validate returns the error of [eventschema.Registry.Validate] for an event.
func (s *Schemas) Validate(e Event) error {
	line, err := s.form.Append(nil, e)
	if err != nil {
		return err
	}
	return s.Registry.Validate(e.Type, line)
}
