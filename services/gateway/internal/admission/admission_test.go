package admission_test

import (
	"testing"

	"github.com/agentbus/agentbus/services/gateway/internal/admission"
)

func TestHashOfTheSameCallIsEqual(t *testing.T) {
	t.Parallel()
	const body = `{"messages":[{"role":"user","content":"hi"}],"threadId":"t"}`
	tests := []struct {
		what, agent, body string
		same              bool
	}{
		{"the same bytes", "demo", body, true},
		{"other spaces and order", "demo", "{ \"threadId\":\"t\",\n\"messages\":[{\"content\":\"hi\",\"role\":\"user\"}]}", true},
		{"another escape for a character", "demo", `{"messages":[{"role":"user","content":"\u0068i"}],"threadId":"t"}`, true},
		{"another agent", "other", body, false},
		{"another text", "demo", `{"messages":[{"role":"user","content":"Hi"}],"threadId":"t"}`, false},
		{"another order of messages", "demo", `{"messages":[{"role":"user","content":"hi"},{}],"threadId":"t"}`, false},
		{"no JSON", "demo", `{`, false},
	}
	for _, test := range tests {
		if same := admission.Hash(test.agent, []byte(test.body)) == admission.Hash("demo", []byte(body)); same != test.same {
			t.Errorf("%s: got same %v, want %v", test.what, same, test.same)
		}
	}
	if admission.Hash("a", []byte("{")) == admission.Hash("a", []byte("[")) {
		t.Error("two bodies that are not JSON hash alike")
	}
}
