package agui

import (
	"strings"

	"github.com/go-json-experiment/json"
)

// note is a signature: what the agent needs of a part of the conversation when it goes back.
type note struct {
	API       string `json:"api"`
	ID        string `json:"id,omitempty"`        // of the message or the call, as the agent names it
	Message   string `json:"message,omitempty"`   // of a call: the message that it belongs to
	Encrypted string `json:"encrypted,omitempty"` // of reasoning: the provider's data
	Interrupt string `json:"interrupt,omitempty"` // of a call that stands for an interrupt: the id
	Member    string `json:"member,omitempty"`    // of an interrupt: the member of its response that has the answer; "" = the response is the answer
}

const api = "ag-ui"

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
