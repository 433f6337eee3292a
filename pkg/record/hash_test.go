package record_test

import (
	"encoding/json"
	"testing"

	"github.com/agentbus/agentbus/pkg/record"
)

func TestHashArgs(t *testing.T) {
	t.Parallel()
	const base = `{"to":"ada@example.com","amount":10}`
	tests := []struct {
		name, args string
		same       bool
	}{
		{"the same text", base, true},
		{"another order", `{"amount":10,"to":"ada@example.com"}`, true},
		{"other spaces", "{ \"to\" : \"ada@example.com\",\n\t\"amount\": 10 }", true},
		{"the number written another way", `{"to":"ada@example.com","amount":1.0e1}`, true},
		{"a letter escaped", `{"to":"\u0061da@example.com","amount":10}`, true},
		{"another value", `{"to":"eve@example.com","amount":10}`, false},
		{"a number as text", `{"to":"ada@example.com","amount":"10"}`, false},
		{"a member more", `{"to":"ada@example.com","amount":10,"cc":"eve@example.com"}`, false},
		{"another case", `{"To":"ada@example.com","amount":10}`, false},
	}
	want, err := record.HashArgs(json.RawMessage(base))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		args := json.RawMessage(tt.args)
		got, err := record.HashArgs(args)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if (got == want) != tt.same {
			t.Errorf("%s: same hash is %v, want %v", tt.name, got == want, tt.same)
		}
		if string(args) != tt.args {
			t.Errorf("%s: the arguments were changed to %s", tt.name, args)
		}
	}
}

func TestHashArgsPreservesLargeIntegers(t *testing.T) {
	t.Parallel()
	a, errA := record.HashArgs(json.RawMessage(`{"account":10000000000000000}`))
	b, errB := record.HashArgs(json.RawMessage(`{"account":10000000000000001}`))
	if errA != nil || errB != nil || a == b {
		t.Errorf("two accounts have the hashes %s and %s (%v, %v)", a, b, errA, errB)
	}
}

func TestHashArgsOfTheEmptyObject(t *testing.T) {
	t.Parallel()
	const want = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // sha256("{}")
	if got, err := record.HashArgs(json.RawMessage(" { } ")); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestHashArgsRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"nothing":          "",
		"half an object":   `{"a":`,
		"a name twice":     `{"a":1,"a":2}`,
		"two values":       `{} {}`,
		"invalid UTF-8":    "{\"a\":\"\xff\"}",
		"a lone surrogate": `{"a":"\ud800"}`,
		"no number":        `{"a":NaN}`,
	}
	for name, args := range tests {
		if got, err := record.HashArgs(json.RawMessage(args)); err == nil {
			t.Errorf("%s: %q has the hash %s", name, args, got)
		}
	}
}
