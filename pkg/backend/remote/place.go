package remote

import (
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// place is the position of a session: between two tasks, or within one.
type place struct {
	session string // the agent's
	task    string // "" = between two
	asked   string // key of an assignment whose answer is not in the request's log, where task is ""
	known   int    // of the conversation's messages, those that asked leaves out: the session has them
	request string // that gave the task
	after   uint64 // number of the task's newest event that is in the request's log, with all before it
	said    bool   // the log has text of the task
	wait    wait
	used    event.Usage
}

// wait says whether a task waits for an answer to its actions.
type wait string

// The states, as the mark that a place writes after its number.
const (
	waiting   wait = "?" // until the next request brings the results
	answering wait = "!" // the request has them, and may have given them to the agent
)

// parsePlace reads what state wrote: "session", "@known@request@key#session" while an assignment has no answer, or
// "task@after@request#session" within a task. "after" ends with "+" once the log has text of the task, and with the mark of a
// task that waits.
func parsePlace(s backend.State) place {
	task, session, within := strings.Cut(s.ID, "#")
	if !within {
		return place{session: s.ID}
	}
	taskID, rest, _ := strings.Cut(task, "@")
	after, request, named := strings.Cut(rest, "@") // states of earlier versions name no request
	if request, key, asked := strings.Cut(request, "@"); asked && taskID == "" {
		known, _ := strconv.Atoi(after) // states of earlier versions have 0: the task then has the whole conversation
		return place{session: session, asked: key, known: max(0, known), request: request}
	}
	var mark wait
	for _, w := range []wait{waiting, answering} {
		if number, ok := strings.CutSuffix(after, string(w)); ok {
			after, mark = number, w
		}
	}
	number, said := strings.CutSuffix(after, "+")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return place{session: session}
	}
	return place{session: session, task: taskID, request: request, after: n, said: said || !named && n > 0, wait: mark, used: s.Used}
}

func (p place) state() backend.State {
	if p.task == "" && p.asked != "" {
		return backend.State{ID: "@" + strconv.Itoa(p.known) + "@" + p.request + "@" + p.asked + "#" + p.session}
	}
	if p.task == "" {
		return backend.State{ID: p.session}
	}
	after := strconv.FormatUint(p.after, 10)
	if p.said {
		after += "+"
	}
	return backend.State{ID: p.task + "@" + after + string(p.wait) + "@" + p.request + "#" + p.session, Used: p.used}
}

// Task returns the task that a request has given to a remote agent and whose end is not in the request's log, as the
// newest state of the session says: its id or, where the hub has not answered, the key of its assignment. Both are "" where
// the request has left none, or one that waits for the next request.
func Task(s backend.State, requestID string) (taskID, key string) {
	if p := parsePlace(s); p.request == requestID && p.wait != waiting {
		return p.task, p.asked
	}
	return "", ""
}
