package event

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// Members are members of a JSON object that its type does not declare: those of a later version, or of an application.
// They keep their order and their text. The zero value has none.
type Members struct{ members }

// members is a type of its own since the encoder requires an exported field; the method of the same name hides it.
type members struct {
	JSON jsontext.Value `json:",embed"`
}

// NewMembers returns the members of a JSON object. It keeps object, which the caller must not change. [Encode] refuses
// a value that is not an object, and a member that the type declares.
func NewMembers(object json.RawMessage) Members {
	return Members{members{jsontext.Value(object)}}
}

// JSON returns the members as a JSON object; nil without members.
func (m Members) JSON() json.RawMessage { return json.RawMessage(m.members.JSON) }

// IsEmpty reports whether there are no members.
func (m Members) IsEmpty() bool { return len(m.members.JSON) == 0 }
