package bus

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/anishathalye/porcupine"
)

// registerKind is what may be asked of a record.
type registerKind string

const (
	registerFirst registerKind = "first write wins" // put, and read when the value is ""
	registerSwap  registerKind = "compare-and-set"  // set to a sequence when expect is the newest, and read when expect is ""
	registerEnd   registerKind = "terminal event"   // put by the claimant
)

// simRegister is everything that was asked of one record.
type simRegister struct {
	kind registerKind
	key  string
	ops  []*simOp
}

// simOp is one of these questions. It stays open if its outcome is unknown.
type simOp struct {
	history *simHistory
	input   registerInput
	output  registerOutput
	call    int64
	end     int64
}

type registerInput struct {
	kind          registerKind
	value, expect string
}

type registerOutput struct {
	unknown bool
	won     bool
	value   string // "" where the caller does not learn it
}

// returns ends an operation, unless err says that its outcome is not known.
func (o *simOp) returns(value string, won bool, err error) {
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		return
	}
	o.history.mu.Lock()
	defer o.history.mu.Unlock()
	o.output = registerOutput{value: value, won: won}
	o.end = int64(time.Since(o.history.start))
}

func (o *simOp) stores() { o.returns(o.input.value, true, nil) }

func (o *simOp) fails(fenced bool) {
	if fenced {
		o.returns("", false, nil)
	}
}

// lostState is a register that was set to a sequence that no actor received.
const lostState = "?"

// registerStep gives the states that a register may be in after an operation; none, if it cannot have happened.
func registerStep(state, input, output any) []any {
	s, in, out := state.(string), input.(registerInput), output.(registerOutput)
	switch {
	case out.unknown && in.kind == registerSwap:
		return swapUnknown(s, in)
	case in.kind == registerSwap:
		return swapStep(s, in, out)
	case out.unknown && in.value != "" && s == "":
		return []any{"", in.value}
	case out.unknown:
		return []any{s}
	case in.value == "": // a read
		return only(s, out.value == s)
	case out.won:
		return only(in.value, s == "")
	case in.kind == registerEnd: // fenced
		return []any{s}
	default:
		return only(s, s != "" && (out.value == "" || out.value == s))
	}
}

func only(state string, possible bool) []any {
	if !possible {
		return nil
	}
	return []any{state}
}

func swapUnknown(s string, in registerInput) []any {
	if in.expect != "" && (s == in.expect || s == lostState) {
		return []any{s, lostState}
	}
	return []any{s}
}

// swapStep knows that who lost may have won: his record was stored, his answer lost, and then another writer appended to it.
func swapStep(s string, in registerInput, out registerOutput) []any {
	switch {
	case in.expect == "":
		return only(out.value, s == out.value || s == lostState)
	case out.won:
		return only(out.value, s == in.expect || s == lostState)
	case s == in.expect || s == lostState:
		return []any{lostState}
	default:
		return []any{s}
	}
}

func registerModel(kind registerKind) porcupine.Model {
	start := ""
	if kind == registerSwap {
		start = "0"
	}
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{start} },
		Step: registerStep,
	}).ToModel()
}

// linearizable checks a register against its final value.
func (r *simRegister) linearizable(final string) bool {
	var history []porcupine.Operation
	for i, op := range r.ops {
		if op.output.unknown && op.input.value == "" {
			continue // a read whose answer was lost
		}
		end := op.end
		if op.output.unknown {
			end = math.MaxInt64 - 1
		}
		history = append(history, porcupine.Operation{
			ClientId: i, Input: op.input, Call: op.call, Output: op.output, Return: end,
		})
	}
	history = append(history, porcupine.Operation{
		ClientId: len(r.ops), Input: registerInput{kind: r.kind}, Call: math.MaxInt64 - 2,
		Output: registerOutput{value: final}, Return: math.MaxInt64,
	})
	return porcupine.CheckOperations(registerModel(r.kind), history)
}

// final is the last value of a register.
func (w *simWorld) final(r *simRegister) string {
	what, key, _ := strings.Cut(r.key, "/")
	if r.kind == registerEnd {
		return w.ender(r.key)
	}
	if r.kind == registerSwap {
		_, m := newest[record.Thread](w, "EVENTS", broker.KindThread, simTenant, key)
		return strconv.FormatUint(m.Sequence, 10)
	}
	switch what {
	case "accept":
		a, _ := newest[record.Accepted](w, "EVENTS", broker.KindAccept, simTenant, key)
		return a.Owner
	case "abort":
		a, _ := newest[record.Abort](w, "EVENTS", broker.KindCommand, simTenant, key, broker.KindAbort)
		return a.By
	case "steer":
		requestID, steerID, _ := strings.Cut(key, "/")
		s, _ := newest[record.Steer](w, "EVENTS", broker.KindCommand, simTenant, requestID, broker.KindSteer, steerID)
		return s.By
	case "started":
		s, _ := newest[record.ToolStarted](w, "RESULTS", broker.KindStarted, simTenant, w.caller(key), key)
		return s.Executor
	default:
		s, _ := newest[record.ToolResult](w, "RESULTS", broker.KindResult, simTenant, w.caller(key), key)
		return strings.Trim(s.Content+"/"+string(s.Status), "/")
	}
}

// caller is the request that makes a call.
func (w *simWorld) caller(callID string) string {
	for requestID, plan := range w.plans {
		if plan.tool == callID {
			return requestID
		}
	}
	return ""
}
