package check

import (
	"cmp"
	"slices"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// Route is a way to read what a request, or a thread, has said.
type Route string

// The routes.
const (
	RouteRequest  Route = "request stream"
	RouteThread   Route = "thread stream"
	RouteEvents   Route = "thread events"
	RouteMessages Route = "thread messages"
	RouteSession  Route = "session events"
	RouteState    Route = "request state" // the steers that it reports as unread
)

// View is what one route showed of one request, or thread, when everything had come to rest.
type View struct {
	ID        ID
	Route     Route
	Gateway   string
	Format    string // sse or ndjson, of a stream
	Extended  bool   // every event was asked for, not the native ones alone
	After     uint64 // with Resumed: n of the event that it was resumed after
	Resumed   bool
	Forgotten bool // the stream had forgotten everything by then
	Status    int
	Error     string       // why there is nothing to see
	Seen      []oplog.Seen // of streams, and of thread events
	Document  string       // of the other routes, all pages together
}

// what names a view in reports.
func (v View) what() string {
	text := string(v.Route) + " over " + v.Gateway
	if v.Format != "" {
		text += " as " + v.Format
	}
	if v.Extended {
		text += ", extended"
	}
	if v.Resumed {
		text += ", resumed"
	}
	if v.Forgotten {
		text += ", after retention"
	}
	return text
}

// views is I17.
func (r *Run) views() []Violation {
	var found []Violation
	documents := map[string]View{} // the first of each route and thread
	for _, v := range r.Views {
		if v.Error != "" || v.Status != 200 {
			found = append(found, violation(v.ID, "%s: %d %s", v.what(), v.Status, v.Error))
			continue
		}
		if v.Route == RouteSession || v.Route == RouteMessages || v.Route == RouteState {
			key := string(v.Route) + v.ID.Tenant + v.ID.Name
			if first, ok := documents[key]; !ok {
				documents[key] = v
			} else if v.Document != first.Document {
				found = append(found, violation(v.ID, "%s shows other things than %s: %s",
					v.what(), first.what(), difference(v.Document, first.Document)))
			}
			continue
		}
		want := r.whole(v)
		at := 0
		for at < min(len(want), len(v.Seen)) && want[at] == v.Seen[at] {
			at++
		}
		switch {
		case at < min(len(want), len(v.Seen)):
			found = append(found, violation(v.ID, "%s shows %s at place %d, and the log has %s",
				v.what(), shortly(v.Seen[at]), at, shortly(want[at])))
		case len(v.Seen) != len(want):
			found = append(found, violation(v.ID, "%s shows %d events, and the log has %d", v.what(), len(v.Seen), len(want)))
		}
	}
	return found
}

// whole is what a view must show.
func (r *Run) whole(v View) []oplog.Seen {
	if v.Route == RouteRequest {
		all := r.shown(shownKey{v.ID, v.Extended})
		if v.Resumed {
			all = slices.DeleteFunc(all, func(s oplog.Seen) bool { return s.N <= v.After })
		}
		return all
	}
	var all []oplog.Seen
	for _, t := range r.Threads[v.ID] {
		if l := r.Logs[ID{v.ID.Tenant, t.RequestID}]; l != nil && !t.Deleted {
			all = append(all, seenOf(l, func(line event.Line) bool {
				return line.Name == event.NameInput || isShown(line, v.Extended)
			})...)
		}
	}
	return all
}

// shortly is an event in a few words.
func shortly(s oplog.Seen) string { return s.Name + " (" + s.Sum.String() + ")" }

// difference shows where two documents part.
func difference(a, b string) string {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	from := max(0, at-40)
	return "…" + a[from:min(len(a), at+80)] + "… against …" + b[from:min(len(b), at+80)] + "…"
}

// message is one of a thread's messages, as the API shows it.
type message struct {
	RequestID    string             `json:"requestId"`
	MessageID    string             `json:"messageId,omitempty"`
	Role         string             `json:"role"`
	Input        event.InputContent `json:"input,omitempty"`
	Content      []event.Content    `json:"content,omitempty"`
	FinishReason event.FinishReason `json:"finishReason,omitempty"`
}

// messages is I16.
func (r *Run) messages() []Violation {
	var found []Violation
	for _, v := range r.Views {
		if v.Route != RouteMessages || v.Document == "" {
			continue
		}
		var shown []message
		if err := json.Unmarshal([]byte(v.Document), &shown); err != nil {
			found = append(found, violation(v.ID, "%s cannot be read: %v", v.what(), err))
			continue
		}
		var want []message
		for _, t := range r.Threads[v.ID] {
			if l := r.Logs[ID{v.ID.Tenant, t.RequestID}]; l != nil && !t.Deleted {
				want = append(want, messagesOf(ID{v.ID.Tenant, t.RequestID}, l)...)
			}
		}
		for i := range max(len(want), len(shown)) {
			var got, wanted string
			if i < len(shown) {
				got = text(shown[i])
			}
			if i < len(want) {
				wanted = text(want[i])
			}
			if got != wanted {
				found = append(found, violation(v.ID, "%s: message %d: %s", v.what(), i, difference(got, wanted)))
				break
			}
		}
	}
	return found
}

// messagesOf is what was said in a request: by its user, and by its agent.
func messagesOf(id ID, l *Log) []message {
	var all []message
	answer := message{RequestID: id.Name, Role: "assistant"}
	lines := l.lines()
	for _, one := range lines {
		switch b := one.body.(type) {
		case event.Input:
			for _, m := range b.Messages {
				all = append(all, message{RequestID: id.Name, Role: m.Role, Input: m.Content})
			}
		case event.Done:
			answer.MessageID, answer.Content, answer.FinishReason = b.MessageID, b.Content, b.FinishReason
		case event.Aborted:
			answer.MessageID, answer.Content = b.MessageID, b.Content
		case event.Error:
			answer.Content = contentOf(foldOf(id, lines))
		default:
			if p, ok := blockEventOf(one.body); ok {
				answer.MessageID = cmp.Or(answer.MessageID, p.MessageID)
			}
		}
	}
	if len(answer.Content) > 0 || answer.FinishReason != "" {
		all = append(all, answer)
	}
	return all
}
