package aisdk

import (
	"encoding/json"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// note is a signature: what the agent needs of a part of the conversation when it goes back.
type note struct {
	API       string          `json:"api"`
	Message   string          `json:"message,omitempty"`   // id of the UI message that the part belongs to
	ID        string          `json:"id,omitempty"`        // of a call, as the agent names it
	Dynamic   bool            `json:"dynamic,omitzero"`    // the tool of the call has no static type
	Provider  bool            `json:"provider,omitzero"`   // the provider of the model runs the call
	Metadata  json.RawMessage `json:"metadata,omitzero"`   // of the model's provider
	Approval  string          `json:"approval,omitempty"`  // of a call that asks for an approval: the id of the request
	Signature string          `json:"signature,omitempty"` // of the request for the approval
	Input     json.RawMessage `json:"input,omitzero"`      // inputSchemaInput of the request for the approval
}

const api = "ai-sdk"

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
