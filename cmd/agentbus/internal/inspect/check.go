package inspect

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/eventstream"
	"github.com/agentbus/agentbus/schemas"
)

// checker holds events against the contract and tells of each that is not as it says.
type checker struct {
	schemas *eventstream.Schemas
	side    io.Writer

	seen, wrong, unknown int
}

// newChecker takes the schemas of a folder of the contract.
func newChecker(folder string, side io.Writer) (*checker, error) {
	registry := eventstream.NewSchemas(eventstream.Flat) // the form does not matter for what is written already
	if err := registry.Read(schemas.FS, folder); err != nil {
		return nil, err
	}
	return &checker{schemas: registry, side: side}, nil
}

// all yields the events again, and looks at each on the way.
func (c *checker) all(entries iter.Seq2[entry, error]) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				err = c.look(e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (c *checker) look(e entry) error {
	c.seen++
	err := c.schemas.ValidateJSON(e.event.Type, e.line)
	if errors.Is(err, eventstream.ErrNoSchema) {
		c.unknown++
		return nil
	}
	invalid, ok := errors.AsType[*eventstream.Invalid](err)
	if !ok {
		return err
	}
	c.wrong++
	for _, problem := range invalid.Problems {
		if _, err := fmt.Fprintf(c.side, "%s %s %s: %s\n", screen.Clean(e.request), place(e.event.ID),
			screen.Clean(e.event.Type), screen.Clean(problem)); err != nil {
			return err
		}
	}
	return nil
}

// verdict tells how it went. It is screen.ErrTold when events are wrong.
func (c *checker) verdict() error {
	if _, err := fmt.Fprintf(c.side, "%d events checked: %d wrong, %d of types without a schema\n", c.seen, c.wrong, c.unknown); err != nil {
		return err
	}
	if c.wrong > 0 {
		return screen.ErrTold
	}
	return nil
}
