package openai

import (
	"encoding/json"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
)

// note is a signature: what a part of the conversation must have when it goes back, and to which API and model.
type note struct {
	API       string          `json:"api"`
	Model     string          `json:"model"`
	Member    string          `json:"member,omitempty"`    // chat: the member that had the thinking
	Extra     json.RawMessage `json:"extra,omitzero"`      // chat: extra_content of a call
	ID        string          `json:"id,omitempty"`        // responses: of a reasoning item
	Encrypted string          `json:"encrypted,omitempty"` // responses: the reasoning
	Phase     string          `json:"phase,omitempty"`     // responses: of a text
}

const (
	chatAPI      = "openai-chat"
	responsesAPI = "openai-responses"
)

func (n note) String() string {
	text, err := jsonv2.Marshal(n)
	if err != nil { // an extra that is not JSON, which the decoder of the SDK would have refused
		return ""
	}
	return string(text)
}

// read returns the note of a signature if it is from an API and a model.
func read(signature, api, model string) (n note, ok bool) {
	if !strings.HasPrefix(signature, "{") {
		return note{}, false
	}
	if err := jsonv2.Unmarshal([]byte(signature), &n); err != nil {
		return note{}, false
	}
	return n, n.API == api && n.Model == model
}
