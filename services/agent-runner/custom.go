package agentrunner

import (
	"errors"
	"fmt"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/eventschema"
	"github.com/go-json-experiment/json"
)

// customSchemas has the schemas of the custom events in the configuration.
type customSchemas struct{ schemas *eventschema.Registry }

func newCustomSchemas(described map[string]config.Event) (customSchemas, error) {
	c := customSchemas{eventschema.New()}
	for name, e := range described {
		schema, err := json.Marshal(e.Schema)
		if err == nil {
			err = c.schemas.Add(name, schema)
		}
		if err != nil {
			return c, fmt.Errorf("events.%s: %w", name, err)
		}
	}
	return c, nil
}

// validate returns why an event is invalid, or nil. An event of a type without a schema is always valid.
func (c customSchemas) validate(e event.Custom) error {
	err := c.schemas.Validate(e.Type, e.Data)
	if errors.Is(err, eventschema.ErrNoSchema) {
		return nil
	}
	return err
}
