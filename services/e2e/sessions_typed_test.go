package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/sse"
)

// TestActionsAreResolvedByTyping sends queries as Tarko's page does, which has no other way to answer.
func TestActionsAreResolvedByTyping(t *testing.T) {
	t.Parallel()
	const approval, question = `/approve echo {"text":"careful"}`, "/ask What is your name?"
	for _, test := range []struct {
		name, first, typed string
		result             string // status of the action's result; "" = what was typed is a message
		answer             string // a part of the response
	}{
		{"an approval is given", approval, "yes", "success", "after"},
		{"an approval is given in other words", approval, " OK. ", "success", "after"},
		{"an approval is refused", approval, "No!", "denied", "after"},
		{"another text closes an approval", approval, "/say something else", "", "something else"},
		{"a question is answered", question, "Ann", "success", "after"},
		{"a question is answered with a word that decides approvals", question, "no", "success", "after"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			id := session(t, nil)
			asked := tarko(t, http.MethodPost, "/sessions/query", members{"sessionId": id, "query": test.first + "\n/say after"}, 200)
			if notices := messages(asked, "system"); !strings.Contains(notices, "Type ") {
				t.Errorf("the notices are %q, want one that says what to type", notices)
			}
			answer := tarko(t, http.MethodPost, "/sessions/query", members{"sessionId": id, "query": test.typed}, 200)
			if got := answer.text("response"); !strings.Contains(got, test.answer) {
				t.Errorf("got the response %q, want %q", got, test.answer)
			}
			var results []string
			for _, e := range answer.events() {
				if e.text("type") == "action_result" {
					results = append(results, e.text("data", "status"))
				}
			}
			if got := strings.Join(results, " "); got != test.result {
				t.Errorf("got the results %q, want %q", got, test.result)
			}
			if said := messages(answer, "user_message"); (said == "") != (test.result != "") {
				t.Errorf("got the messages %q", said)
			}
		})
	}
}

// messages joins the texts of the nested events of a type.
func messages(answer members, kind string) string {
	var all []string
	for _, e := range answer.events() {
		if e.text("type") == kind {
			all = append(all, e.text("data", "message")+e.text("data", "content"))
		}
	}
	return strings.Join(all, "\n")
}

func TestASessionThatRunsIsStoppedAndDeleted(t *testing.T) {
	t.Parallel()
	id := session(t, nil)
	text := string(jsonText(t, members{"sessionId": id, "query": "/stream 10000 20"}))
	response := call(t.Context(), t, http.MethodPost, "/api/v1/sessions/query/stream", text)
	defer response.Body.Close()
	if _, err := sse.NewReader(response.Body).Next(); err != nil {
		t.Fatal(err)
	}
	if gone := tarko(t, http.MethodPost, "/sessions/delete", members{"sessionId": id}, 200); gone.at("success") != true {
		t.Errorf("got %v", gone)
	}
	tarko(t, http.MethodGet, "/sessions/details?sessionId="+id, nil, 404)
}
