package event

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxCustomBytes is the most that the data of a custom event may be.
const MaxCustomBytes = 64 << 10

var customType = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.:-]{0,63}$`)

// NewCustom returns a custom event. It rejects a name with characters other than letters, digits and _.:-, the name of
// a built-in event, and data that is not a JSON object or is longer than [MaxCustomBytes]. Without data, the event has
// an empty object.
func NewCustom(name string, data json.RawMessage) (Custom, error) {
	if !customType.MatchString(name) {
		return Custom{}, fmt.Errorf("custom event %.80q: its type must be 1 to 64 letters, digits and _.:- and begin with a letter", name)
	}
	if slices.Contains(Names(), Name(name)) {
		return Custom{}, fmt.Errorf("custom event %q: an event of the protocol has this name; choose another", name)
	}
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	if len(data) > MaxCustomBytes {
		return Custom{}, fmt.Errorf("custom event %q: its data has %d bytes; at most %d are allowed", name, len(data), MaxCustomBytes)
	}
	data = slices.Clone(data)
	if (*jsontext.Value)(&data).Compact() != nil || jsontext.Value(data).Kind() != '{' {
		return Custom{}, fmt.Errorf("custom event %q: its data must be a JSON object", name)
	}
	return Custom{Type: name, Data: data}, nil
}
