package check

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/internal/journal"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

var begin = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// at is a time of the run.
func at(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }

const (
	asker    = "req_asks"     // asks for an approval
	resolver = "req_resolves" // brings it, runs the tool, and is done
	stopped  = "req_stopped"  // is aborted
)

func id(request string) ID { return ID{"ash", request} }

// write makes a frame behind those of a log.
func write(t *testing.T, l *Log, request string, epoch, sequence uint64, seconds float64, bodies ...event.Body) {
	t.Helper()
	f := event.Frame{Incarnation: "inc", Epoch: epoch, First: l.Last().Next(), Sequence: sequence, Time: at(seconds)}
	for i, body := range bodies {
		line, err := event.Encode(event.Event{
			ID: event.NewCursor("inc", f.First+uint64(i)), RequestID: request, Time: at(seconds), Body: body,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Names, f.Lines = append(f.Names, body.Name()), append(append(f.Lines, line...), '\n')
	}
	l.Frames = append(l.Frames, f)
}

// good is a run without a violation: a thread on which an approval is asked for and given, with a takeover, and a
// request that is aborted.
func good(t *testing.T) *Run {
	t.Helper()
	args := json.RawMessage(`{"mark":"m"}`)
	hash, err := record.HashArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{
		Begin: begin, Logs: map[ID]*Log{}, Threads: map[ID][]Thread{}, Rows: map[ID]Row{}, Stored: map[uint64]string{},
		Limits: Limits{
			Deadline: time.Minute, Grace: 2 * time.Second, Decision: 2 * time.Second, Refusal: time.Second, Heartbeat: 10 * time.Second,
		},
	}
	scripted := event.Metadata{ThreadID: "thr_a", Provider: providerScripted}
	one := accepted(r, asker, "thr_a", 0, nil)
	write(t, one, asker, 1, 3, 1, event.Claim{Epoch: 1}, script("/approve journal_approved {\"mark\":\"m\"}\n/say hi there"), scripted)
	write(t, one, asker, 1, 4, 2,
		event.ToolCall{Block: opened("b0", 0), ToolCallID: "call_1", Tool: journal.Approved},
		event.ToolCall{Block: added("b0", 0), ToolCallID: "call_1", Delta: string(args)},
		event.ToolCall{Block: closed("b0"), ToolCallID: "call_1", Tool: journal.Approved, Args: args, Gate: event.ContinueApproval},
		event.UsageSoFar{Turns: 1},
		event.Continuation{ActionID: "act_1", Kind: event.ContinueApproval,
			Payload: event.ContinuationAction{ToolCallID: "call_1", Tool: journal.Approved, ArgsHash: hash}})
	write(t, one, asker, 1, 5, 3, event.Done{ThreadID: "thr_a", FinishReason: event.FinishActionRequired, Content: said(one, asker)})

	two := accepted(r, resolver, "thr_a", 1, []event.ActionResult{{ActionID: "act_1", Status: event.ActionSuccess}})
	write(t, two, resolver, 1, 8, 4, event.Claim{Epoch: 1}, event.Input{ActionResults: two.Accepted.Request.Context.ActionResults}, scripted,
		event.ToolResult{Block: opened("b0", 0), ToolCallID: "call_1", Tool: journal.Approved})
	write(t, two, resolver, 1, 9, 5, event.ToolOutput{ToolCallID: "call_1", Status: event.ToolSuccess, Content: "noted m"},
		event.ToolResult{Block: closed("b0"), ToolCallID: "call_1", Tool: journal.Approved, Status: event.ToolSuccess},
		event.Text{Block: opened("b1", 1)}, event.Text{Block: added("b1", 0), Delta: "hi"})
	write(t, two, resolver, 2, 10, 9, event.Claim{Epoch: 2}, event.Text{Block: given("b1")})
	write(t, two, resolver, 2, 11, 9.5, event.Text{Block: opened("e2b2", 2)}, event.Text{Block: added("e2b2", 0), Delta: "hi "},
		event.Text{Block: added("e2b2", 1), Delta: "there"}, event.Text{Block: closed("e2b2"), Text: "hi there"},
		event.UsageSoFar{Turns: 1})
	write(t, two, resolver, 2, 12, 10, event.Done{ThreadID: "thr_a", FinishReason: event.FinishStop, Content: said(two, resolver)})
	two.Results = map[string]record.ToolResult{"call_1": {ToolCallID: "call_1", Status: event.ToolSuccess, Content: "noted m"}}
	r.Executions = []journal.Line{
		{At: at(4.5), Tool: journal.Approved, Call: "call_1", Args: args},
		{At: at(4.6), Tool: journal.Approved, Call: "call_1", Args: args, Ended: true},
	}

	three := accepted(r, stopped, "thr_b", 0, nil)
	write(t, three, stopped, 1, 14, 4, event.Claim{Epoch: 1}, script("/sleep 1s\n/say over"),
		event.Metadata{ThreadID: "thr_b", Provider: providerScripted})
	three.Abort, three.AbortSeq, three.AbortAt = &record.Abort{RequestID: stopped}, 15, at(5)
	write(t, three, stopped, 1, 16, 5.1, event.Aborted{ThreadID: "thr_b"})

	for _, request := range []string{asker, resolver, stopped} {
		project(r, request)
		for _, f := range r.Logs[id(request)].Frames {
			r.Stored[f.Sequence] = "agentbus.event.ash." + request
		}
	}
	clients(r)
	show(r)
	return r
}

// script is what a user says to begin a request.
func script(text string) event.Input {
	return event.Input{Messages: []event.InputMessage{event.UserText(text)}}
}

// The stages of a block; given is the stop of one that is discarded.
func opened(id string, index int) event.Block {
	return event.Block{BlockID: id, Stage: event.StageStart, BlockIndex: &index}
}

func added(id string, index int) event.Block {
	return event.Block{BlockID: id, Stage: event.StageDelta, DeltaIndex: &index}
}

func closed(id string) event.Block { return event.Block{BlockID: id, Stage: event.StageStop} }

func given(id string) event.Block {
	return event.Block{BlockID: id, Stage: event.StageStop, Discarded: true, Reason: "superseded"}
}

// said is the content of the end of a log as it is now.
func said(l *Log, request string) []event.Content { return contentOf(foldOf(id(request), l.lines())) }

// show adds what every route showed of the thread with two requests.
func show(r *Run) {
	thread := ID{"ash", "thr_a"}
	var messages []message
	for _, request := range []string{asker, resolver} {
		messages = append(messages, messagesOf(id(request), r.Logs[id(request)])...)
	}
	r.Views = make([]View, views)
	for i := range r.Views {
		r.Views[i] = View{ID: thread, Gateway: "http://127.0.0.1:1", Status: 200, Forgotten: i >= viewLater}
	}
	set := func(i int, route Route, seen []oplog.Seen, document string) {
		r.Views[i].Route, r.Views[i].Seen, r.Views[i].Document = route, seen, document
	}
	set(viewMessages, RouteMessages, nil, text(messages))
	set(viewMessagesLater, RouteMessages, nil, text(messages))
	set(viewSession, RouteSession, nil, `{"events":[]}`)
	set(viewSessionLater, RouteSession, nil, `{"events":[]}`)
	r.Views[viewThread].Extended = true
	set(viewThread, RouteThread, r.whole(r.Views[viewThread]), "")
	r.Views[viewLater].ID = id(resolver)
	set(viewLater, RouteRequest, r.shown(shownKey{id(resolver), false}), "")
	r.Views[viewResumed].ID, r.Views[viewResumed].Resumed, r.Views[viewResumed].After = id(resolver), true, 5
	r.Views[viewResumed].Route = RouteRequest
	set(viewResumed, RouteRequest, r.whole(r.Views[viewResumed]), "")
}

// The places of views in a good run.
const (
	viewMessages = iota
	viewSession
	viewThread
	viewLater // and those behind it: after retention
	viewMessagesLater
	viewSessionLater
	viewResumed
	views
)

// accepted adds a request with its records.
func accepted(r *Run, request, thread string, index int, results []event.ActionResult) *Log {
	a := record.Accepted{Tenant: "ash", RequestID: request, ThreadID: thread, BodyHash: "hash"}
	a.Request.Context.ActionResults = results
	l := &Log{Accepted: &a, AcceptedAt: at(0)}
	r.Logs[id(request)] = l
	t := Thread{Thread: record.Thread{ThreadID: thread, RequestID: request, Index: index}}
	for _, result := range results {
		t.Resolves = append(t.Resolves, result.ActionID)
	}
	r.Threads[ID{"ash", thread}] = append(r.Threads[ID{"ash", thread}], t)
	return l
}

// project makes the row of a request.
func project(r *Run, request string) {
	l := r.Logs[id(request)]
	row := Row{Status: string(l.Terminal()), Next: l.Last().Next(), Terminals: 1}
	for _, f := range l.Frames {
		row.Lines = append(row.Lines, f.Lines...)
	}
	r.Rows[id(request)] = row
}

// The places of entries in a good run.
const (
	postResolver = iota // taken
	postAgain           // the same key, after no answer
	readFirst           // of the session that leaves and comes back
	readRest
	abortStopped
	spied
	entries
)

// clients adds what clients did and saw.
func clients(r *Run) {
	whole := r.shown(shownKey{id(resolver), false})
	r.Entries = make([]oplog.Entry, entries)
	base := oplog.Entry{Actor: "u1", Tenant: "ash", Request: resolver, Thread: "thr_a", Gateway: "http://127.0.0.1:1"}
	set := func(i int, change func(*oplog.Entry)) {
		e := base
		change(&e)
		r.Entries[i] = e
	}
	set(postResolver, func(e *oplog.Entry) {
		e.Op, e.Key, e.Status, e.Actions = oplog.Post, "k", 200, []string{"act_1"}
	})
	set(postAgain, func(e *oplog.Entry) {
		e.Op, e.Key, e.Status, e.Actions = oplog.Post, "k", 202, []string{"act_1"}
	})
	read := func(seen []oplog.Seen, end oplog.End) func(*oplog.Entry) {
		return func(e *oplog.Entry) {
			e.Op, e.Session, e.Format, e.Status, e.Seen, e.End = oplog.Read, "s1", "sse", 200, seen, end
			e.At, e.Took = time.Second, 5*time.Second
		}
	}
	set(readFirst, read(whole[:1], oplog.Left))
	set(readRest, read(whole[1:], oplog.Terminal))
	set(abortStopped, func(e *oplog.Entry) {
		e.Op, e.Request, e.Thread, e.Status, e.At = oplog.Abort, stopped, "", 202, 4900*time.Millisecond
	})
	set(spied, func(e *oplog.Entry) { e.Op, e.Tenant, e.Status, e.Thread = oplog.Spy, "birch", 404, "" })
}
