package codec_test

import (
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

func TestDeeper(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, text string
		want       bool
	}{
		{"as deep as may be", `{"a":[1]}`, false},
		{"one level too many", `{"a":[[1]]}`, true},
		{"one after the other", `[[],{},[]]`, false},
		{"brackets in a text", `["[[[{{{"]`, false},
		{"a quote in a text", `["\"[[["]`, false},
		{"a backslash at a text's end", `["\\",[[1]]]`, true},
		{"no JSON, and deep", `[[[`, true},
		{"nothing", ``, false},
	} {
		if got := codec.NestedDeeper([]byte(test.text), 2); got != test.want {
			t.Errorf("%s: got %t for %s", test.name, got, test.text)
		}
	}
}
