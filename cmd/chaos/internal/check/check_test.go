package check

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/internal/journal"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/record"
)

func TestAGoodRunHasNoViolation(t *testing.T) {
	t.Parallel()
	r := good(t)
	if found := r.Check(); len(found) > 0 {
		t.Errorf("got %v", found)
	}
	taken := r.Sometimes()
	if taken[PathTakeover] != 1 || taken[PathAborted] != 1 {
		t.Errorf("got %v, want one takeover and one abort", taken)
	}
	if len(r.Unsettled()) > 0 {
		t.Errorf("got %v", r.Unsettled())
	}
}

func TestEachViolationIsFound(t *testing.T) {
	t.Parallel()
	log := func(r *Run, request string) *Log { return r.Logs[id(request)] }
	cut := func(r *Run, request string, n int) { log(r, request).Frames = log(r, request).Frames[:n] }
	tests := []struct {
		what      string
		invariant string
		spoil     func(t *testing.T, r *Run)
	}{
		{"a request without an end", "I1", func(_ *testing.T, r *Run) { cut(r, resolver, 3); project(r, resolver) }},
		{"an accepted request without a log", "I1", func(_ *testing.T, r *Run) { log(r, resolver).Frames = nil }},
		{"an event behind the end", "I1", func(t *testing.T, r *Run) {
			write(t, log(r, resolver), resolver, 2, 20, 11, event.Done{ThreadID: "thr_a"})
		}},
		{"an end that comes late", "I1", func(_ *testing.T, r *Run) { log(r, resolver).AcceptedAt = at(-60) }},

		{"a frame that is missing", "I2", func(_ *testing.T, r *Run) {
			l := log(r, resolver)
			l.Frames = slices.Delete(l.Frames, 1, 2)
		}},
		{"a frame that is there twice", "I2", func(_ *testing.T, r *Run) {
			l := log(r, resolver)
			l.Frames = slices.Insert(l.Frames, 1, l.Frames[1])
		}},
		{"a frame of an older epoch behind a claim", "I2", func(t *testing.T, r *Run) {
			cut(r, resolver, 3)
			write(t, log(r, resolver), resolver, 1, 20, 11, event.Done{ThreadID: "thr_a"})
		}},
		{"a claim of the epoch before", "I2", func(t *testing.T, r *Run) {
			cut(r, resolver, 2)
			write(t, log(r, resolver), resolver, 1, 20, 11, event.Claim{Epoch: 1})
		}},
		{"an epoch that continues after it was handed over", "I2", func(t *testing.T, r *Run) {
			cut(r, resolver, 2)
			write(t, log(r, resolver), resolver, 1, 20, 11, event.Claim{Epoch: 1, Released: true}, event.Done{ThreadID: "thr_a"})
		}},
		{"a writer that is fenced by its own message", "I2", func(_ *testing.T, r *Run) {
			r.Marks = append(r.Marks, Mark{What: MarkFenced, Subject: "agentbus.event.ash." + resolver, Sequence: 9, Epoch: 1})
		}},

		{"a client that misses an event", "I3", func(_ *testing.T, r *Run) { r.Entries[readRest].Seen = r.Entries[readRest].Seen[1:] }},
		{"a client that sees an event twice", "I3", func(_ *testing.T, r *Run) {
			e := &r.Entries[readRest]
			e.Seen = append(slices.Clone(r.Entries[readFirst].Seen), e.Seen...)
		}},
		{"a client that sees another event", "I3", func(_ *testing.T, r *Run) {
			e := &r.Entries[readRest]
			e.Seen = slices.Clone(e.Seen)
			e.Seen[0].Sum++
		}},
		{"a client that sees more than there is", "I3", func(_ *testing.T, r *Run) { cut(r, resolver, 2) }},
		{"a stream that ends in order without its end", "I3", func(_ *testing.T, r *Run) { r.Entries[readFirst].End = oplog.Whole }},
		{"a cursor that a gateway gave and does not know", "I3", func(_ *testing.T, r *Run) { r.Entries[readRest].Reset = true }},

		{"an append that was acknowledged and is gone", "I4", func(_ *testing.T, r *Run) {
			r.Marks = append(r.Marks, Mark{What: MarkAcknowledged, Subject: "agentbus.event.ash." + resolver, Sequence: 99})
		}},
		{"an abort that was taken and is gone", "I4", func(_ *testing.T, r *Run) { log(r, stopped).Abort = nil }},

		{"a request that SQL does not know", "I5", func(_ *testing.T, r *Run) { delete(r.Rows, id(asker)) }},
		{"a row that is behind", "I5", func(_ *testing.T, r *Run) {
			row := r.Rows[id(asker)]
			row.Next--
			r.Rows[id(asker)] = row
		}},
		{"a row with other events", "I5", func(_ *testing.T, r *Run) {
			row := r.Rows[id(asker)]
			row.Lines = append(slices.Clone(row.Lines), 'x')
			r.Rows[id(asker)] = row
		}},
		{"a row with two ends", "I5", func(_ *testing.T, r *Run) {
			row := r.Rows[id(asker)]
			row.Terminals = 2
			r.Rows[id(asker)] = row
		}},
		{"rows that do not fit together", "I5", func(_ *testing.T, r *Run) {
			row := r.Rows[id(asker)]
			row.Broken = "a gap"
			r.Rows[id(asker)] = row
		}},
		{"a row of a request without a log", "I5", func(_ *testing.T, r *Run) { r.Rows[id("req_x")] = Row{Next: 3} }},

		{"a request that was taken and has no record", "I6", func(_ *testing.T, r *Run) { log(r, resolver).Accepted = nil }},
		{"a request that was taken and is not on its thread", "I6", func(_ *testing.T, r *Run) { r.Entries[postResolver].Thread = "thr_x" }},
		{"a key with two requests", "I6", func(_ *testing.T, r *Run) {
			r.Entries[postAgain].Request, r.Entries[postAgain].Actions = asker, nil
		}},
		{"a steer that is taken up twice", "I6", func(t *testing.T, r *Run) {
			cut(r, stopped, 1)
			said := event.Input{ThreadID: "thr_b", SteerID: "steer_1"}
			write(t, log(r, stopped), stopped, 1, 16, 5.1, said, said, event.Aborted{ThreadID: "thr_b"})
		}},
		{"a steer that was taken and has no record", "I6", func(_ *testing.T, r *Run) {
			r.Entries = append(r.Entries, oplog.Entry{Op: oplog.Steer, Tenant: "ash", Request: resolver, Status: 202, Steer: "steer_1"})
		}},
		{"a steer that came in time and is never read", "I6", func(_ *testing.T, r *Run) {
			r.Entries = append(r.Entries, oplog.Entry{Op: oplog.Steer, Tenant: "ash", Request: resolver, Status: 202, Steer: "steer_1"})
			log(r, resolver).Steers = map[string]Steer{"steer_1": {Sequence: 10, At: at(7.9)}}
		}},
		{"a steer that is not read and not reported", "I6", func(_ *testing.T, r *Run) {
			r.Entries = append(r.Entries, oplog.Entry{Op: oplog.Steer, Tenant: "ash", Request: resolver, Status: 202, Steer: "steer_1"})
			log(r, resolver).Steers = map[string]Steer{"steer_1": {Sequence: 10, At: at(9.9)}}
			r.Views = append(r.Views, View{ID: id(resolver), Route: RouteState, Status: 200, Document: "[]"})
		}},
		{"a request that is not found", "I6", func(_ *testing.T, r *Run) { r.Entries[readRest].Status = 404 }},

		{"an unsafe call that runs twice", "I7", func(_ *testing.T, r *Run) { r.Executions = append(r.Executions, r.Executions[0]) }},
		{"a call that runs and was not asked for", "I7", func(_ *testing.T, r *Run) { r.Executions[0].Call = "call_x" }},
		{"a call that runs before it is stored", "I7", func(_ *testing.T, r *Run) { r.Executions[0].At = at(1) }},
		{"a success that never ran", "I7", func(_ *testing.T, r *Run) { r.Executions = nil }},
		{"a call that runs long after an abort", "I7", func(_ *testing.T, r *Run) {
			log(r, resolver).Abort, log(r, resolver).AbortAt = &record.Abort{}, at(2.4)
		}},
		{"a call without a result", "I7", func(t *testing.T, r *Run) {
			cut(r, resolver, 0)
			write(t, log(r, resolver), resolver, 1, 8, 4, event.Claim{Epoch: 1}, script("/say hi there"), event.Done{FinishReason: event.FinishStop})
			log(r, resolver).Accepted.Request.Messages = []event.InputMessage{event.UserText("/say hi there")}
		}},
		{"a call with two outputs", "I7", func(t *testing.T, r *Run) {
			cut(r, resolver, 2)
			write(t, log(r, resolver), resolver, 1, 10, 9, event.ToolOutput{ToolCallID: "call_1", Status: event.ToolSuccess, Content: "noted m"})
		}},
		{"a call with two results", "I7", func(t *testing.T, r *Run) {
			cut(r, resolver, 2)
			result := func(b event.Block) event.ToolResult {
				return event.ToolResult{Block: b, ToolCallID: "call_1", Tool: journal.Approved}
			}
			write(t, log(r, resolver), resolver, 1, 10, 9, result(opened("b2", 2)), result(closed("b2")))
		}},
		{"a call whose output no client sees", "I7", func(t *testing.T, r *Run) {
			cut(r, resolver, 1)
			write(t, log(r, resolver), resolver, 1, 10, 9, event.ToolOutput{ToolCallID: "call_1", Status: event.ToolSuccess, Content: "noted m"},
				event.ToolResult{Block: given("b0")}, event.Done{FinishReason: event.FinishStop})
		}},
		{"an output of a call that was not made", "I7", func(t *testing.T, r *Run) {
			cut(r, resolver, 2)
			write(t, log(r, resolver), resolver, 1, 10, 9, event.ToolOutput{ToolCallID: "call_x"})
		}},
		{"an output that is not the stored result", "I7", func(_ *testing.T, r *Run) {
			log(r, resolver).Results["call_1"] = record.ToolResult{ToolCallID: "call_1", Status: event.ToolSuccess, Content: "noted x"}
		}},

		{"an action that two requests resolve", "I8", func(_ *testing.T, r *Run) { r.Threads[ID{"ash", "thr_b"}][0].Resolves = []string{"act_1"} }},
		{"an action that two requests are taken with", "I8", func(_ *testing.T, r *Run) {
			r.Entries[postAgain].Request, r.Entries[postAgain].Key = stopped, "other"
		}},
		{"an approved call with other arguments", "I8", func(_ *testing.T, r *Run) { r.Executions[0].Args = json.RawMessage(`{"mark":"x"}`) }},
		{"a denied call that runs", "I8", func(_ *testing.T, r *Run) {
			log(r, resolver).Accepted.Request.Context.ActionResults[0].Status = event.ActionDenied
		}},

		{"an approved call that never runs", "I8", func(_ *testing.T, r *Run) { r.Executions = nil }},
		{"an approved call that is denied", "I8", func(t *testing.T, r *Run) {
			cut(r, resolver, 1)
			write(t, log(r, resolver), resolver, 1, 10, 9, event.ToolOutput{ToolCallID: "call_1", Status: event.ToolDenied},
				event.ToolResult{Block: closed("b0"), Status: event.ToolDenied, ToolCallID: "call_1"}, event.Done{FinishReason: event.FinishStop})
		}},
		{"a denied call with a success", "I8", func(_ *testing.T, r *Run) {
			log(r, resolver).Accepted.Request.Context.ActionResults[0].Status = event.ActionDenied
			r.Executions = nil
		}},

		{"requests of a thread at the same time", "I9", func(_ *testing.T, r *Run) { log(r, resolver).Frames[0].Sequence = 4 }},
		{"two requests with one place on a thread", "I9", func(_ *testing.T, r *Run) { r.Threads[ID{"ash", "thr_a"}][1].Index = 0 }},

		{"a request that ends well long after its abort", "I10", func(t *testing.T, r *Run) {
			cut(r, stopped, 1)
			write(t, log(r, stopped), stopped, 1, 16, 7.1, event.Done{ThreadID: "thr_b"})
		}},
		{"an end that is written long after the abort, by a clock that is wrong", "I10", func(t *testing.T, r *Run) {
			cut(r, stopped, 1)
			write(t, log(r, stopped), stopped, 1, 16, 5.1, event.Done{ThreadID: "thr_b"})
			r.Marks = append(r.Marks, Mark{What: MarkEnding, Subject: "agentbus.event.ash." + stopped, Epoch: 1, At: at(7.1)})
		}},
		{"an abort that is taken after the end", "I10", func(_ *testing.T, r *Run) { r.Entries[abortStopped].At = 8 * time.Second }},

		{"a tenant who sees another's text", "I11", func(_ *testing.T, r *Run) { r.Entries[readRest].Foreign = "canary-of-birch" }},
		{"a tenant who is let in by another", "I11", func(_ *testing.T, r *Run) { r.Entries[spied].Status = 200 }},
		{"a secret in a log", "I11", func(_ *testing.T, r *Run) { r.Told = []string{"gateway-0 prints a secret"} }},

		{"something that is not given back", "I12", func(_ *testing.T, r *Run) {
			r.Resources = []Resource{{Of: "nats", Name: "consumers", Before: 3, After: 4}}
		}},
		{"a process that breaks down", "I12", func(_ *testing.T, r *Run) { r.Panics = []string{"history-0 broke down"} }},

		{"a stream without a sign of life", "I13", func(_ *testing.T, r *Run) { r.Entries[readRest].Silence = 11 * time.Second }},
		{"a stream that an orderly stop cuts within an event", "I13", func(_ *testing.T, r *Run) {
			r.Entries[readFirst].Partial, r.Entries[readFirst].End = 7, oplog.Cut
			r.Entries = append(r.Entries, fault("stop gateway"))
		}},

		{"a block that is open at the end", "I14", func(t *testing.T, r *Run) {
			cut(r, stopped, 1)
			write(t, log(r, stopped), stopped, 1, 16, 5.1, event.Text{Block: opened("b0", 0)}, event.Aborted{})
		}},
		{"a takeover that leaves a block open", "I14", func(t *testing.T, r *Run) {
			cut(r, resolver, 2)
			write(t, log(r, resolver), resolver, 2, 10, 9, event.Claim{Epoch: 2}, event.Text{Block: opened("e2b2", 2)},
				event.Text{Block: closed("e2b2")}, event.Text{Block: given("b1")}, event.Done{FinishReason: event.FinishStop})
		}},
		{"a block that starts twice", "I14", func(t *testing.T, r *Run) {
			write(t, log(r, stopped), stopped, 1, 17, 5.1, event.Text{Block: opened("b0", 0)}, event.Text{Block: opened("b0", 0)})
		}},
		{"a block that stops twice", "I14", func(t *testing.T, r *Run) {
			write(t, log(r, stopped), stopped, 1, 17, 5.1, event.Text{Block: opened("b0", 0)}, event.Text{Block: closed("b0")},
				event.Text{Block: closed("b0")})
		}},
		{"a block that stops and has not started", "I14", func(t *testing.T, r *Run) {
			write(t, log(r, stopped), stopped, 1, 17, 5.1, event.Text{Block: closed("b0")})
		}},
		{"a block in another place than it says", "I14", func(t *testing.T, r *Run) {
			write(t, log(r, stopped), stopped, 1, 17, 5.1, event.Text{Block: opened("b0", 1)})
		}},
		{"a block that misses a delta", "I14", func(t *testing.T, r *Run) {
			write(t, log(r, stopped), stopped, 1, 17, 5.1, event.Text{Block: opened("b0", 0)}, event.Text{Block: added("b0", 1), Delta: "x"})
		}},
		{"a delta behind the stop of its block", "I14", func(t *testing.T, r *Run) {
			write(t, log(r, stopped), stopped, 1, 17, 5.1, event.Text{Block: opened("b0", 0)}, event.Text{Block: closed("b0")},
				event.Text{Block: added("b0", 0)})
		}},
		{"a stop that says other things than its deltas", "I14", func(t *testing.T, r *Run) {
			write(t, log(r, stopped), stopped, 1, 17, 5.1, event.Text{Block: opened("b0", 0)}, event.Text{Block: added("b0", 0), Delta: "x"},
				event.Text{Block: closed("b0"), Text: "y"})
		}},
		{"a call whose deltas are other arguments", "I14", func(t *testing.T, r *Run) {
			write(t, log(r, stopped), stopped, 1, 17, 5.1, event.ToolCall{Block: opened("b0", 0)}, event.ToolCall{Block: added("b0", 0), Delta: "{}"},
				event.ToolCall{Block: closed("b0"), Args: json.RawMessage(`{"a":1}`)})
		}},
		{"a done request with a block that was cut", "I14", func(t *testing.T, r *Run) {
			cut(r, stopped, 1)
			partly := closed("b0")
			partly.Reason = "error"
			write(t, log(r, stopped), stopped, 1, 17, 5.1, event.Text{Block: opened("b0", 0)}, event.Text{Block: added("b0", 0), Delta: "x"},
				event.Text{Block: partly, Text: "x"}, event.Done{FinishReason: event.FinishStop})
		}},

		{"a step that is said twice", "I15", speaks("/say one\n/tool echo {}\n/say over", "one", "one")},
		{"a step that is left out", "I15", speaks("/think hm\n/say one", "one")},
		{"another text than the script's", "I15", speaks("/say one", "two")},
		{"a text that is cut short", "I15", speaks("/stream 3 10", "0 the quick brown f 1 the quick brown f ")},
		{"a script that is not run to its end", "I15", speaks("/say one\n/tool echo {}\n/say over", "one")},
		{"an end that says other things than the blocks", "I15", func(t *testing.T, r *Run) {
			cut(r, resolver, 4)
			write(t, log(r, resolver), resolver, 2, 12, 10, event.Done{FinishReason: event.FinishStop})
		}},

		{"a message that is missing", "I16", func(_ *testing.T, r *Run) { r.Views[viewMessages].Document = "[]" }},
		{"a message that says something else", "I16", func(_ *testing.T, r *Run) {
			v := &r.Views[viewMessagesLater]
			v.Document = strings.Replace(v.Document, "hi there", "hi", 1)
		}},
		{"messages that cannot be read", "I16", func(_ *testing.T, r *Run) { r.Views[viewMessages].Document = "{" }},

		{"a route that cannot be read", "I17", func(_ *testing.T, r *Run) { r.Views[viewLater].Status = 404 }},
		{"a route that shows less after retention", "I17", func(_ *testing.T, r *Run) { r.Views[viewLater].Seen = r.Views[viewLater].Seen[1:] }},
		{"a thread's stream with another event", "I17", func(_ *testing.T, r *Run) { r.Views[viewThread].Seen[2].Sum++ }},
		{"a resumed stream that begins too late", "I17", func(_ *testing.T, r *Run) { r.Views[viewResumed].After-- }},
		{"session events that change after retention", "I17", func(_ *testing.T, r *Run) { r.Views[viewSessionLater].Document = "{}" }},
	}
	for _, test := range tests {
		t.Run(test.invariant+" "+test.what, func(t *testing.T) {
			t.Parallel()
			r := good(t)
			test.spoil(t, r)
			found := r.Check()
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Invariant == test.invariant }) {
				t.Errorf("got %v, want a violation of %s", found, test.invariant)
			}
		})
	}
}

// speaks lets the request that is aborted follow a script, and be done when it has said some texts, a block of each.
func speaks(text string, blocks ...string) func(*testing.T, *Run) {
	return func(t *testing.T, r *Run) {
		l := r.Logs[id(stopped)]
		l.Frames, l.AbortSeq = nil, 99
		write(t, l, stopped, 1, 14, 4, event.Claim{Epoch: 1}, script(text), event.Metadata{Provider: providerScripted})
		for i, block := range blocks {
			name := "b" + strconv.Itoa(i)
			write(t, l, stopped, 1, 15, 4, event.Text{Block: opened(name, i)}, event.Text{Block: added(name, 0), Delta: block},
				event.Text{Block: closed(name), Text: block})
		}
		write(t, l, stopped, 1, 16, 5, event.UsageSoFar{Turns: 1})
		write(t, l, stopped, 1, 17, 5, event.Done{FinishReason: event.FinishStop, Content: said(l, stopped)})
		project(r, stopped)
	}
}

func fault(what string) oplog.Entry {
	return oplog.Entry{Op: oplog.Fault, Fault: what, Target: "gateway-0 http://127.0.0.1:1", At: 2 * time.Second, Took: 3 * time.Second}
}

func TestValidEvidenceIsNotAViolation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		what string
		make func(t *testing.T, r *Run)
	}{
		{"a frozen gateway is silent", func(_ *testing.T, r *Run) {
			r.Entries[readRest].Silence = 12 * time.Second
			r.Entries = append(r.Entries, fault("freeze gateway"))
		}},
		{"a killed gateway cuts anything", func(_ *testing.T, r *Run) {
			r.Entries[readFirst].Partial, r.Entries[readFirst].End = 7, oplog.Cut
			r.Entries = append(r.Entries, fault("stop gateway"), fault("kill gateway"))
		}},
		{"an end that was on its way when the abort came", func(t *testing.T, r *Run) {
			l := r.Logs[id(stopped)]
			l.Frames = l.Frames[:1]
			write(t, l, stopped, 1, 16, 5.1, event.Done{ThreadID: "thr_b"})
			project(r, stopped)
		}},
		{"a waiting request that is aborted while another runs", func(t *testing.T, r *Run) {
			waiting := accepted(r, "req_waits", "thr_a", 2, nil)
			write(t, waiting, "req_waits", 1, 6, 3, event.Claim{Epoch: 1}, event.Metadata{ThreadID: "thr_a"}, event.Aborted{})
			r.Views = nil
			project(r, "req_waits")
		}},
		{"a log that is given out of hand", func(t *testing.T, r *Run) {
			l := r.Logs[id(stopped)]
			l.Frames = l.Frames[:1]
			write(t, l, stopped, 1, 16, 5.1, event.Claim{Epoch: 1, Released: true})
			write(t, l, stopped, 2, 17, 5.2, event.Claim{Epoch: 2})
			write(t, l, stopped, 2, 18, 5.3, event.Aborted{ThreadID: "thr_b"})
			project(r, stopped)
		}},
		{"what a script prescribes", speaks("/say one\n/say two\n/stream 2 10 5", "one\ntwo\n0 th 1 th ")},
		{"a prompt that is not a script", speaks("hello", "anything")},
		{"an abort that comes while its runner is frozen", func(t *testing.T, r *Run) {
			l := r.Logs[id(stopped)]
			l.Frames = l.Frames[:1]
			write(t, l, stopped, 1, 16, 8.5, event.Done{ThreadID: "thr_b", FinishReason: event.FinishActionRequired})
			r.Logs[id(stopped)].Accepted.Request.Messages = nil
			project(r, stopped)
			r.Entries = append(r.Entries, oplog.Entry{
				Op: oplog.Fault, Fault: "freeze agent-runner", Target: "agent-runner-0", At: 4 * time.Second, Took: 4 * time.Second,
			})
		}},
		{"a steer that comes while the end is written", func(_ *testing.T, r *Run) {
			r.Entries = append(r.Entries, oplog.Entry{Op: oplog.Steer, Tenant: "ash", Request: resolver, Status: 202, Steer: "steer_1"})
			r.Logs[id(resolver)].Steers = map[string]Steer{"steer_1": {Sequence: 10, At: at(9.9)}}
		}},
		{"a steer of a request that waits for its client", func(_ *testing.T, r *Run) {
			r.Entries = append(r.Entries, oplog.Entry{Op: oplog.Steer, Tenant: "ash", Request: asker, Status: 202, Steer: "steer_1"})
			r.Logs[id(asker)].Steers = map[string]Steer{"steer_1": {Sequence: 3, At: at(0.5)}}
		}},
		{"a message of another epoch fences", func(_ *testing.T, r *Run) {
			r.Marks = append(r.Marks, Mark{What: MarkFenced, Subject: "agentbus.event.ash." + resolver, Sequence: 10, Epoch: 1})
		}},
		{"what was acknowledged is there", func(_ *testing.T, r *Run) {
			r.Marks = append(r.Marks, Mark{What: MarkAcknowledged, Subject: "agentbus.event.ash." + resolver, Sequence: 9})
		}},
	}
	for _, test := range tests {
		t.Run(test.what, func(t *testing.T) {
			t.Parallel()
			r := good(t)
			test.make(t, r)
			if found := r.Check(); len(found) > 0 {
				t.Errorf("got %v", found)
			}
		})
	}
}

func TestHistoryOfARequestIsComplete(t *testing.T) {
	t.Parallel()
	r := good(t)
	var b bytes.Buffer
	r.History(&b, id(resolver))
	for _, want := range []string{`"op":"post"`, `"op":"read"`, "epoch 2, events", "result of call_1: success", "accepted at 0s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, b.String())
		}
	}
	b.Reset()
	r.History(&b, id(asker))
	if !strings.Contains(b.String(), "executed at 4.5s: call_1") {
		t.Errorf("the execution is missing in\n%s", b.String())
	}
}

func TestAViolationNamesWhatIsNew(t *testing.T) {
	t.Parallel()
	r := good(t)
	r.Resources = []Resource{{Of: "nats", Name: "consumers", Before: 3, After: 4, New: []string{"abc of KV_AGENTBUS_KEYS"}}}
	want := "nats holds 4 consumers after the run, and held 3 before it; new: abc of KV_AGENTBUS_KEYS"
	if found := r.Check(); len(found) != 1 || found[0].Text != want {
		t.Errorf("got %v, want %q", found, want)
	}
}
