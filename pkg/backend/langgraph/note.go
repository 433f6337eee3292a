package langgraph

import (
	"strings"

	"github.com/go-json-experiment/json"
)

// note is a signature: what identifies a part of the conversation on the server.
type note struct {
	API string `json:"api"`
	ID  string `json:"id,omitempty"` // of the message or the call, as the server names it

	Interrupt string `json:"interrupt,omitempty"` // of a call that stands for an interrupt: the id
	Form      string `json:"form,omitempty"`      // of the interrupt's answer: review, inbox; "" = the answer of the user
	Index     int    `json:"index,omitzero"`      // of a call that is reviewed among Of calls
	Of        int    `json:"of,omitzero"`
}

const api = "langgraph"

func (n note) String() string {
	n.API = api
	text, err := json.Marshal(n)
	if err != nil { // a text that is not UTF-8, which the decoder refuses
		return ""
	}
	return string(text)
}

// read returns the note of a signature, the zero note for one of another backend.
func read(signature string) (n note) {
	if !strings.HasPrefix(signature, "{") || json.Unmarshal([]byte(signature), &n) != nil || n.API != api {
		return note{}
	}
	return n
}
