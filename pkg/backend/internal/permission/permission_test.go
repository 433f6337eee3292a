package permission

import (
	"fmt"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

func user(text string) backend.Message {
	return backend.Message{Role: backend.User, Parts: []backend.Part{backend.Text{Text: text}}}
}

// asked is a turn that waits for the permission of a call, and the result of its approval.
func asked(args string, status event.ToolStatus, content string) []backend.Message {
	return []backend.Message{
		{Role: backend.Assistant, Parts: []backend.Part{
			backend.Text{Text: "I test."}, backend.Call{ID: "own", Name: "Read", Args: []byte(`{}`)},
			backend.Call{ID: "c", Name: "Bash", Args: []byte(args), Signature: signature},
		}},
		{Role: backend.Tool, Parts: []backend.Part{
			backend.Result{ID: "own", Name: "Read", Content: "A", Status: event.ToolSuccess},
			backend.Result{ID: "c", Name: "Bash", Content: content, Status: status},
		}},
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	const args = `{"command":"make test","n":1}`
	allowed := asked(args, event.ToolSuccess, "the user allowed this call")
	tests := []struct {
		name     string
		messages []backend.Message
		call     Call
		want     []Verdict // of the same call, made again and again
	}{
		{"a permission counts once", allowed, Call{"Bash", []byte(args)}, []Verdict{Allowed, Open}},
		{"however the arguments are written", allowed, Call{"Bash", []byte(`{"n": 1, "command": "make test"}`)}, []Verdict{Allowed, Open}},
		{"not for other arguments", allowed, Call{"Bash", []byte(`{"command":"make test","n":2}`)}, []Verdict{Open}},
		{"not for another tool", allowed, Call{"Write", []byte(args)}, []Verdict{Open}},
		{"not for arguments that are not valid", asked("{", event.ToolSuccess, ""), Call{"Bash", []byte("{")}, []Verdict{Open}},
		{"not after another turn", append(allowed, backend.Message{Role: backend.Assistant}), Call{"Bash", []byte(args)}, []Verdict{Open}},
		{"also before a message of the user", append(allowed, user("go")), Call{"Bash", []byte(args)}, []Verdict{Allowed}},
		{"a denial counts for the turn", asked(args, event.ToolDenied, "the user denied this call: no"), Call{"Bash", []byte(args)}, []Verdict{Denied, Denied}},
		{"an expired action is open", asked(args, event.ToolDenied, "expired: no client acted in time"), Call{"Bash", []byte(args)}, []Verdict{Open}},
		{"a call of another backend", []backend.Message{
			{Role: backend.Assistant, Parts: []backend.Part{backend.Call{ID: "c", Name: "Bash", Args: []byte(args), Signature: "i1"}}}, allowed[1],
		}, Call{"Bash", []byte(args)}, []Verdict{Open}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := Of(tt.messages)
			for i, want := range tt.want {
				if got := d.Take(tt.call); got != want {
					t.Errorf("call %d: got %q, want %q", i+1, got, want)
				}
			}
		})
	}
}

func TestTheSessionReadsDecisionsAsMessages(t *testing.T) {
	t.Parallel()
	const yes = "{user [{The user has allowed this call, which was cancelled before: Bash {}. Make it again, with the same arguments, and continue. }] false}"
	const no = "{user [{The user has not allowed this call: Bash {}. The reason: the user denied this call: no }] false}"
	allowed := append([]backend.Message{user("test it")}, asked("{}", event.ToolSuccess, "the user allowed this call")...)
	denied := append([]backend.Message{user("test it")}, asked("{}", event.ToolDenied, "the user denied this call: no")...)
	tests := []struct {
		name     string
		messages []backend.Message
		known    int
		want     []string
	}{
		{"an allowed call", allowed, 3, []string{yes}},
		{"a denied call", denied, 3, []string{no}},
		{"before the user's next message", append(denied, user("else")), 3, []string{no, "{user [{else }] false}"}},
		{"not again in a later turn", append(allowed, backend.Message{Role: backend.Assistant}, user("else")), 4, []string{"{user [{else }] false}"}},
		{"in a conversation that the session does not have", allowed, 0, []string{
			"{user [{test it }] false}", fmt.Sprint(allowed[1]), fmt.Sprint(backend.Message{Role: backend.Tool, Parts: allowed[2].Parts[:1]}), yes,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, m := range Conversation(tt.messages, tt.known) {
				got = append(got, fmt.Sprint(m))
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got\n%q, want\n%q", got, tt.want)
			}
		})
	}
}

func TestWhoDecides(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options    string
		configured Mode
		want       bool
	}{
		{``, Ask, true},
		{``, Edits, false},
		{``, "", false},
		{`{"permissionMode":"default"}`, Ask, false},
		{`{"permissionMode":"acceptEdits","approvals":"ask"}`, "", true},
		{`{"permissionMode":"default","approvals":"deny"}`, Ask, false},
		{`{"permissionMode":1}`, Ask, true},
	} {
		if got := TaskOf([]byte(tt.options)).Asks(tt.configured); got != tt.want {
			t.Errorf("%s, configured %q: got %t, want %t", tt.options, tt.configured, got, tt.want)
		}
	}
}
