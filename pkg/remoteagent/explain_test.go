package remoteagent_test

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

func TestExplainJSONNamesTheMemberAndNoGoType(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"prompt":1}`:              `"/prompt" must not be a JSON number`,
		`{"prompts":"x"}`:           `"/prompts" is not a known member`,
		`{"prompt":"a","prompt":1}`: `"/prompt" appears twice`,
		`[]`:                        `it must be a JSON object`,
		`{"prompt"`:                 `it is not valid JSON`,
		``:                          `it is not valid JSON`,
	} {
		var in struct {
			Prompt string `json:"prompt"`
		}
		err := json.Unmarshal([]byte(body), &in, json.RejectUnknownMembers(true))
		if err == nil {
			t.Errorf("%q: got no error to explain", body)
			continue
		}
		got := remoteagent.ExplainJSON(err)
		if !strings.Contains(got, want) || strings.Contains(got, "Go ") || strings.Contains(got, "spoke.") {
			t.Errorf("%q: got %q, want %q", body, got, want)
		}
	}
}
