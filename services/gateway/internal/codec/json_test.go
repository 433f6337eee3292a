package codec_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

func TestPath(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		pointer, want string
	}{
		{"the document", "", "the body"},
		{"members and entries", "/messages/0/content", "messages[0].content"},
		{"an empty name", "/a/", "a."},
		{"a long name is cut between characters", jsonPointer("é"), strings.Repeat("é", 60) + "…"},
	}
	for _, tt := range tests {
		if got := codec.Path(jsontext.Pointer(tt.pointer)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func jsonPointer(character string) string { return "/" + strings.Repeat(character, 100) }

func TestAtMost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text, advice, want string
	}{
		{"as many as the limit", `{"list":[1,2]}`, "", ""},
		{"an empty list", `{"list":[]}`, "", ""},
		{"one more", `{"list":[1,2,3]}`, "", "list has more than 2 entries"},
		{"one more, with advice", `{"list":[1,2,3]}`, "or fewer", "list has more than 2 entries; send at most 2, or fewer"},
	}
	for _, tt := range tests {
		var in struct {
			List []int `json:"list"`
		}
		err := json.Unmarshal([]byte(tt.text), &in, json.WithUnmarshalers(codec.AtMost[int](2, tt.advice)))
		if (err == nil) != (tt.want == "") || err != nil && !strings.HasSuffix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if err == nil && in.List == nil {
			t.Errorf("%s: got nil, want a list", tt.name)
		}
	}
}
