package check

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/record"
	"github.com/agentbus/agentbus/pkg/command"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool/journal"
	"github.com/go-json-experiment/json/jsontext"
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
	args := jsontext.Value(`{"mark":"m"}`)
	hash, err := command.HashArgs(args)
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{
		Begin: begin, Logs: map[ID]*Log{}, Threads: map[ID][]Thread{}, Rows: map[ID]Row{}, Stored: map[uint64]string{},
		Limits: Limits{Deadline: time.Minute, Grace: 5 * time.Second, Decision: time.Second, Heartbeat: 10 * time.Second},
	}
	one := accepted(r, asker, "thr_a", 0, nil)
	write(t, one, asker, 1, 3, 1, event.Claim{Epoch: 1}, event.Metadata{ThreadID: "thr_a"})
	call := event.ToolCall{Block: event.Block{BlockID: "b0", Stage: event.Stop}, ToolCallID: "call_1", Tool: journal.Approved, Args: args}
	write(t, one, asker, 1, 4, 2, call, event.Continuation{ActionID: "act_1", Kind: event.ContinueApproval,
		Payload: event.ContinuationAction{ToolCallID: "call_1", Tool: journal.Approved, ArgsHash: hash}})
	write(t, one, asker, 1, 5, 3, event.Done{ThreadID: "thr_a", FinishReason: event.FinishActionRequired})

	two := accepted(r, resolver, "thr_a", 1, []event.ActionResult{{ActionID: "act_1", Status: event.ActionSuccess}})
	write(t, two, resolver, 1, 8, 4, event.Claim{Epoch: 1}, event.Metadata{ThreadID: "thr_a"})
	write(t, two, resolver, 1, 9, 5, event.Text{Block: event.Block{BlockID: "b0", Stage: event.Delta}, Delta: "hi"})
	write(t, two, resolver, 2, 10, 9, event.Claim{Epoch: 2}, event.ToolOutput{ToolCallID: "call_1", Content: "noted m"})
	write(t, two, resolver, 2, 11, 10, event.Done{ThreadID: "thr_a", FinishReason: event.FinishStop})
	two.Results = map[string]command.ToolResult{"call_1": {ToolCallID: "call_1", Status: event.ToolSuccess}}
	r.Executions = []journal.Line{
		{At: at(8), Tool: journal.Approved, Call: "call_1", Args: args},
		{At: at(8.5), Tool: journal.Approved, Call: "call_1", Args: args, Ended: true},
	}

	three := accepted(r, stopped, "thr_b", 0, nil)
	write(t, three, stopped, 1, 14, 4, event.Claim{Epoch: 1}, event.Metadata{ThreadID: "thr_b"})
	three.Abort, three.AbortSeq, three.AbortAt = &command.Abort{RequestID: stopped}, 15, at(5)
	write(t, three, stopped, 1, 16, 5.1, event.Aborted{ThreadID: "thr_b"})

	for _, request := range []string{asker, resolver, stopped} {
		project(r, request)
		for _, f := range r.Logs[id(request)].Frames {
			r.Stored[f.Sequence] = "agentbus.event.ash." + request
		}
	}
	clients(r)
	return r
}

// accepted adds a request with its records.
func accepted(r *Run, request, thread string, index int, results []event.ActionResult) *Log {
	a := command.Accepted{Tenant: "ash", RequestID: request, ThreadID: thread, BodyHash: "hash"}
	a.Request.Context.ActionResults = results
	l := &Log{Accepted: &a, AcceptedAt: at(0)}
	r.Logs[id(request)] = l
	t := Thread{Thread: command.Thread{ThreadID: thread, RequestID: request, Index: index}}
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
	r.Entries = make([]record.Entry, entries)
	base := record.Entry{Actor: "u1", Tenant: "ash", Request: resolver, Thread: "thr_a", Gateway: "http://127.0.0.1:1"}
	set := func(i int, change func(*record.Entry)) {
		e := base
		change(&e)
		r.Entries[i] = e
	}
	set(postResolver, func(e *record.Entry) {
		e.Op, e.Key, e.Status, e.Actions = record.Post, "k", 200, []string{"act_1"}
	})
	set(postAgain, func(e *record.Entry) {
		e.Op, e.Key, e.Status, e.Actions = record.Post, "k", 202, []string{"act_1"}
	})
	read := func(seen []record.Seen, end record.End) func(*record.Entry) {
		return func(e *record.Entry) {
			e.Op, e.Session, e.Format, e.Status, e.Seen, e.End = record.Read, "s1", "sse", 200, seen, end
			e.At, e.Took = time.Second, 5*time.Second
		}
	}
	set(readFirst, read(whole[:1], record.Left))
	set(readRest, read(whole[1:], record.Terminal))
	set(abortStopped, func(e *record.Entry) {
		e.Op, e.Request, e.Thread, e.Status, e.At = record.Abort, stopped, "", 202, 4900*time.Millisecond
	})
	set(spied, func(e *record.Entry) { e.Op, e.Tenant, e.Status, e.Thread = record.Spy, "birch", 404, "" })
}

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
		{"an epoch that goes on after it was given out of hand", "I2", func(t *testing.T, r *Run) {
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
		{"a stream that ends in order without its end", "I3", func(_ *testing.T, r *Run) { r.Entries[readFirst].End = record.Whole }},
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
		{"a request that is not found", "I6", func(_ *testing.T, r *Run) { r.Entries[readRest].Status = 404 }},

		{"an unsafe call that runs twice", "I7", func(_ *testing.T, r *Run) { r.Executions = append(r.Executions, r.Executions[0]) }},
		{"a call that runs and was not asked for", "I7", func(_ *testing.T, r *Run) { r.Executions[0].Call = "call_x" }},
		{"a call that runs before it is stored", "I7", func(_ *testing.T, r *Run) { r.Executions[0].At = at(1) }},
		{"a success that never ran", "I7", func(_ *testing.T, r *Run) { r.Executions = nil }},
		{"a call that runs long after an abort", "I7", func(t *testing.T, r *Run) {
			cut(r, resolver, 3)
			write(t, log(r, resolver), resolver, 2, 11, 10, event.Aborted{})
			r.Executions[0].At = at(16)
		}},

		{"an action that two requests resolve", "I8", func(_ *testing.T, r *Run) { r.Threads[ID{"ash", "thr_b"}][0].Resolves = []string{"act_1"} }},
		{"an action that two requests are taken with", "I8", func(_ *testing.T, r *Run) {
			r.Entries[postAgain].Request, r.Entries[postAgain].Key = stopped, "other"
		}},
		{"an approved call with other arguments", "I8", func(_ *testing.T, r *Run) { r.Executions[0].Args = jsontext.Value(`{"mark":"x"}`) }},
		{"a denied call that runs", "I8", func(_ *testing.T, r *Run) {
			log(r, resolver).Accepted.Request.Context.ActionResults[0].Status = event.ActionDenied
		}},

		{"requests of a thread at the same time", "I9", func(_ *testing.T, r *Run) { log(r, resolver).Frames[0].Sequence = 4 }},
		{"two requests with one place on a thread", "I9", func(_ *testing.T, r *Run) { r.Threads[ID{"ash", "thr_a"}][1].Index = 0 }},

		{"a request that ends well long after its abort", "I10", func(t *testing.T, r *Run) {
			cut(r, stopped, 1)
			write(t, log(r, stopped), stopped, 1, 16, 7, event.Done{ThreadID: "thr_b"})
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
			r.Entries[readFirst].Partial, r.Entries[readFirst].End = 7, record.Cut
			r.Entries = append(r.Entries, fault("stop gateway"))
		}},
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

func fault(what string) record.Entry {
	return record.Entry{Op: record.Fault, Fault: what, Target: "gateway-0 http://127.0.0.1:1", At: 2 * time.Second, Took: 3 * time.Second}
}

func TestWhatIsNoViolation(t *testing.T) {
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
			r.Entries[readFirst].Partial, r.Entries[readFirst].End = 7, record.Cut
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
		{"a message of another epoch fences", func(_ *testing.T, r *Run) {
			r.Marks = append(r.Marks, Mark{What: MarkFenced, Subject: "agentbus.event.ash." + resolver, Sequence: 10, Epoch: 1})
		}},
		{"what was acknowledged stands there", func(_ *testing.T, r *Run) {
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

func TestTheHistoryOfARequestTellsAllOfIt(t *testing.T) {
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
	if !strings.Contains(b.String(), "executed at 8s: call_1") {
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
