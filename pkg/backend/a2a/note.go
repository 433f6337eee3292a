package a2a

import (
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// note is a signature: what belongs to a part of the conversation at the agent.
type note struct {
	API      string                 `json:"api"`
	Task     string                 `json:"task,omitempty"`
	Artifact string                 `json:"artifact,omitempty"` // of a text: the artifact that it is of
	Message  string                 `json:"message,omitempty"`  // of a call: the message by which the task asks
	Action   string                 `json:"action,omitempty"`   // of a call: the id of the action, for an agent of agentbus
	Kind     event.ContinuationKind `json:"kind,omitempty"`     // of that action
}

const api = "a2a"

func (n note) String() string {
	n.API = api
	text, err := jsonv2.Marshal(n)
	if err != nil { // a text that is not UTF-8, which the decoder refuses
		return ""
	}
	return string(text)
}

// read returns the note of a signature, the zero note for one of another backend.
func read(signature string) (n note) {
	if !strings.HasPrefix(signature, "{") || jsonv2.Unmarshal([]byte(signature), &n) != nil || n.API != api {
		return note{}
	}
	return n
}

// place is the state of a session: the context, and the task that runs in it.
type place struct {
	Context string `json:"context"`
	Task    string `json:"task,omitempty"`
}

func (p place) String() string {
	if p == (place{}) {
		return ""
	}
	text, err := jsonv2.Marshal(p)
	if err != nil { // as above
		return ""
	}
	return string(text)
}

// placeOf returns the place of a state, the zero place for one of another backend.
func placeOf(state string) (p place) {
	if jsonv2.Unmarshal([]byte(state), &p) != nil {
		return place{}
	}
	return p
}
