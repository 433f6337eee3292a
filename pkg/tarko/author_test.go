package tarko_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
	"pgregory.net/rapid"
)

// TestProjectionInvariants lets runners write and die as they like, and checks what [tarko.Projector] promises.
func TestProjectionInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		a := author{rt: rt, epoch: 1}
		for range rapid.IntRange(1, 3).Draw(rt, "requests") {
			a.request()
		}
		for _, v := range []tarko.Vocabulary{tarko.Flat, tarko.Nested} {
			told := project(t, v, a.log)
			if problem := broken(v, told); problem != "" {
				rt.Fatalf("%s in\n%s", problem, lines(t, told, eventstream.Event.AppendNested))
			}
			if got, want := stored(project(t, v, withoutDeltas(a.log))), stored(told); !same(got, want) {
				rt.Fatalf("without deltas: got\n%s\nwant\n%s",
					lines(t, got, eventstream.Event.AppendNested), lines(t, want, eventstream.Event.AppendNested))
			}
			ends := 0
			for i, e := range told {
				if e.Type == string(tarko.TypeAgentRunEnd) {
					ends++
				} else if i == len(told)-1 {
					rt.Fatalf("the last event is a %s", e.Type)
				}
			}
			if ends != a.requests {
				rt.Fatalf("%d ends of %d requests", ends, a.requests)
			}
		}
	})
}

// author writes logs as the runners of a thread do.
type author struct {
	rt       *rapid.T
	log      []event.Event
	requests int
	n        uint64
	epoch    int
	blocks   int
	turns    int
	open     []*draft
	finished []*draft // of the turn
}

type draft struct {
	kind event.Name
	id   string
	text string
}

func (a *author) put(body event.Body) {
	a.log = append(a.log, event.Event{
		ID: event.NewCursor("k3f9", a.n), RequestID: fmt.Sprintf("req_%d", a.requests), Time: time.UnixMilli(int64(1000 + 7*len(a.log))),
		Body: body,
	})
	a.n++
}

func (a *author) request() {
	a.requests++
	a.n, a.blocks, a.turns, a.epoch, a.open, a.finished = 0, 0, 0, 1, nil, nil
	a.put(event.Claim{Epoch: 1, Runner: "r"})
	a.put(event.Input{ThreadID: "thr_1", AgentID: "demo", Messages: []event.InputMessage{event.UserText("go")}})
	a.put(event.Metadata{ThreadID: "thr_1", AgentID: "demo"})
	for range rapid.IntRange(0, 40).Draw(a.rt, "steps") {
		step := rapid.SampledFrom([]func(){a.start, a.start, a.delta, a.delta, a.delta, a.stop, a.turn, a.crash}).Draw(a.rt, "step")
		step()
	}
	a.end()
}

func (a *author) block(d *draft, stage event.Stage) event.Block {
	return event.Block{MessageID: "msg_1", BlockID: d.id, Stage: stage}
}

// say writes a stage of a block.
func (a *author) say(d *draft, at event.Block, delta string) {
	whole := at.Stage == event.StageStop && !at.Discarded
	text := ""
	if whole {
		text = d.text
	}
	switch d.kind {
	case event.NameThinking:
		a.put(event.Thinking{Block: at, Delta: delta, Thinking: text})
	case event.NameFinalAnswer:
		a.put(event.FinalAnswer{Block: at, Delta: delta, Content: text})
	case event.NameToolCall:
		call := event.ToolCall{Block: at, ToolCallID: "call_" + d.id, Tool: "echo", Delta: delta}
		if whole {
			call.Args = json.RawMessage(`{}`)
		}
		a.put(call)
	default:
		a.put(event.Text{Block: at, Delta: delta, Text: text})
	}
}

// start begins a block. Prose ends the prose before it, and so does a call.
func (a *author) start() {
	kinds := []event.Name{event.NameText, event.NameThinking, event.NameToolCall, event.NameFinalAnswer}
	for _, d := range a.open {
		if d.kind != event.NameToolCall {
			a.finish(d)
		}
	}
	d := &draft{kind: rapid.SampledFrom(kinds).Draw(a.rt, "kind"), id: fmt.Sprintf("e%db%d", a.epoch, a.blocks)}
	a.blocks++
	a.open = append(a.open, d)
	a.say(d, a.block(d, event.StageStart), "")
}

func (a *author) delta() {
	if len(a.open) == 0 {
		return
	}
	d := rapid.SampledFrom(a.open).Draw(a.rt, "block")
	text := rapid.SampledFrom([]string{"a", "bc", "\n"}).Draw(a.rt, "text")
	d.text += text
	a.say(d, a.block(d, event.StageDelta), text)
}

func (a *author) stop() {
	if len(a.open) > 0 {
		a.finish(a.open[0])
	}
}

func (a *author) finish(d *draft) {
	a.say(d, a.block(d, event.StageStop), "")
	a.finished = append(a.finished, d)
	a.drop(d)
}

func (a *author) drop(d *draft) {
	var rest []*draft
	for _, o := range a.open {
		if o != d {
			rest = append(rest, o)
		}
	}
	a.open = rest
}

func (a *author) discard(d *draft) {
	at := a.block(d, event.StageStop)
	at.Discarded = true
	a.say(d, at, "")
}

// crash lets another runner take over, which gives up what is open and, where its turn comes out otherwise, what is not.
func (a *author) crash() {
	a.epoch++
	a.put(event.Claim{Epoch: uint64(a.epoch), Runner: "r"})
	for _, d := range a.open {
		a.discard(d)
	}
	a.open = nil
	keep := rapid.IntRange(0, len(a.finished)).Draw(a.rt, "kept")
	for _, d := range a.finished[keep:] {
		a.discard(d)
	}
	a.finished = a.finished[:keep:keep]
}

// turn ends the turn, and runs its calls.
func (a *author) turn() {
	for len(a.open) > 0 {
		a.stop()
	}
	a.turns++
	a.put(event.UsageSoFar{Turns: a.turns, FinishReason: event.FinishToolCalls})
	for _, d := range a.finished {
		if d.kind != event.NameToolCall {
			continue
		}
		at := event.Block{MessageID: "msg_1", BlockID: "r" + d.id, Stage: event.StageStop}
		a.put(event.ToolOutput{ToolCallID: "call_" + d.id, Status: event.ToolSuccess, Content: "hi"})
		a.put(event.ToolResult{Block: at, ToolCallID: "call_" + d.id, Tool: "echo", Status: event.ToolSuccess, Summary: "hi"})
	}
	a.finished = nil
}

// end ends the request, in the middle of whatever it does.
func (a *author) end() {
	switch rapid.SampledFrom([]event.Name{event.NameDone, event.NameAborted, event.NameError}).Draw(a.rt, "end") {
	case event.NameDone:
		a.turn()
		a.put(event.Done{FinishReason: event.FinishStop})
		return
	case event.NameAborted:
		a.cut()
		a.put(event.Aborted{})
	default:
		a.cut()
		a.put(event.Error{Code: "agent_error", Message: "it broke"})
	}
}

// cut stops the open texts, and discards open calls.
func (a *author) cut() {
	for len(a.open) > 0 {
		d := a.open[0]
		if d.kind != event.NameToolCall {
			a.finish(d)
			continue
		}
		a.discard(d)
		a.drop(d)
	}
}
