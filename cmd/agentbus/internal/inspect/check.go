package inspect

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/eventschema"
	"github.com/agentbus/agentbus/schemas"
)

// checker validates events against the contract and reports those that are invalid.
type checker struct {
	schemas *eventschema.Registry
	side    io.Writer

	seen, wrong, unknown int
}

// newChecker loads the schemas of a folder of the contract.
func newChecker(folder string, side io.Writer) (*checker, error) {
	registry := eventschema.New()
	if err := registry.Read(schemas.FS, folder); err != nil {
		return nil, err
	}
	return &checker{schemas: registry, side: side}, nil
}

// checkAll yields the events unchanged, and validates each of them.
func (c *checker) checkAll(entries iter.Seq2[entry, error]) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				err = c.check(e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (c *checker) check(e entry) error {
	c.seen++
	err := c.schemas.Validate(e.event.Type, e.line)
	if errors.Is(err, eventschema.ErrNoSchema) {
		c.unknown++
		return nil
	}
	invalid, ok := errors.AsType[*eventschema.Invalid](err)
	if !ok {
		return err
	}
	c.wrong++
	for _, problem := range invalid.Problems {
		if _, err := fmt.Fprintf(c.side, "%s %s %s: %s\n", screen.Clean(e.request), number(e.event.ID),
			screen.Clean(e.event.Type), screen.Clean(problem)); err != nil {
			return err
		}
	}
	return nil
}

// result reports the result. It returns screen.ErrTold if events are invalid.
func (c *checker) result() error {
	if _, err := fmt.Fprintf(c.side, "%d events checked: %d wrong, %d of types without a schema\n", c.seen, c.wrong, c.unknown); err != nil {
		return err
	}
	if c.wrong > 0 {
		return screen.ErrShown
	}
	return nil
}
