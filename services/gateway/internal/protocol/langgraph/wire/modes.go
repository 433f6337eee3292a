package wire

import (
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"
)

// The stream modes.
const (
	modeValues   = "values"
	modeUpdates  = "updates"
	modeMessages = "messages"
	modeTuples   = "messages-tuple"
	modeCustom   = "custom"
	modeTools    = "tools"
)

// Modes are what a stream has.
type Modes struct {
	Values   bool // the state after each change
	Updates  bool // each change
	Messages bool // each message of the agent, whole, after each of its parts
	Tuples   bool // the parts of the messages
	Custom   bool // custom events
	Tools    bool // the starts and ends of tools
}

// ParseModes returns the modes of a list of names.
func ParseModes(names []string) (m Modes, err error) {
	for _, name := range names {
		switch name {
		case modeValues:
			m.Values = true
		case modeUpdates:
			m.Updates = true
		case modeMessages:
			m.Messages = true
		case modeTuples:
			m.Tuples = true
		case modeCustom:
			m.Custom = true
		case modeTools:
			m.Tools = true
		case "events", "debug", "tasks", "checkpoints": // an agent has no graph whose inner events these would be
		default:
			return m, invalid("stream_mode %.40q does not exist; use values, updates, messages, messages-tuple, custom or tools", name)
		}
	}
	return m, nil
}

// modeList is a name, or a list of names.
type modeList []string

// maxModes bounds a list of modes.
const maxModes = 20

// UnmarshalJSON implements json.Unmarshaler.
func (l *modeList) UnmarshalJSON(text []byte) error {
	var one string
	if jsonv2.Unmarshal(text, &one) == nil {
		*l = modeList{one}
		return nil
	}
	var many []string
	if err := jsonv2.Unmarshal(text, &many); err != nil || len(many) > maxModes {
		return invalid("stream_mode must be a mode, or a list of at most %d modes", maxModes)
	}
	*l = many
	return nil
}

// Stored is what a run of this protocol stores with its request.
type Stored struct {
	Modes    []string        `json:"streamMode,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitzero"` // an object of the client
}

// metadata is the metadata of a request.
type metadata struct {
	LangGraph Stored `json:"langgraph"`
}

// ReadStored returns what a run has stored; the zero value for a request of another protocol.
func ReadStored(note json.RawMessage) Stored {
	var m metadata
	if len(note) == 0 || jsonv2.Unmarshal(note, &m) != nil {
		return Stored{}
	}
	return m.LangGraph
}
