package bus

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
)

// simHistory is what the actors of a run have done and received. It is safe for concurrent use.
type simHistory struct {
	start time.Time

	mu         sync.Mutex
	violations []string
	registers  map[string]*simRegister
	taken      map[string]simCall      // requests that were accepted
	refused    map[string]simCall      // requests whose last answer was no
	stored     []simStored             // what was confirmed to a writer as stored
	listens    map[string]time.Time    // the last look for commands, by request and epoch
	aborts     map[string]time.Time    // when an abort was acknowledged
	steers     map[[2]string]time.Time // when a steer was acknowledged, by request and steer
	sessions   []*simSession
	effects    map[string]int // of tools, by call
}

type simStored struct {
	log   broker.LogID
	n     uint64 // that follows
	epoch uint64
}

func newSimHistory(start time.Time) simHistory {
	return simHistory{
		start: start, registers: map[string]*simRegister{}, taken: map[string]simCall{}, refused: map[string]simCall{},
		listens: map[string]time.Time{},
		aborts:  map[string]time.Time{}, steers: map[[2]string]time.Time{}, effects: map[string]int{},
	}
}

func (h *simHistory) violate(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violations = append(h.violations, fmt.Sprintf(format, args...))
}

func (h *simHistory) calls() map[string]simCall {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.taken)
}

func (h *simHistory) answered(c simCall, taken bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if taken {
		h.taken[c.requestID] = c
		delete(h.refused, c.requestID)
	} else {
		h.refused[c.requestID] = c
	}
}

func (h *simHistory) acknowledged(log broker.LogID, n, epoch uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stored = append(h.stored, simStored{log, n, epoch})
}

func claimOf(log broker.LogID, epoch uint64) string { return fmt.Sprint(log.RequestID, "/", epoch) }

func (h *simHistory) listened(log broker.LogID, epoch uint64, asked time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listens[claimOf(log, epoch)] = asked
}

func (h *simHistory) abortTaken(requestID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.aborts[requestID].IsZero() {
		h.aborts[requestID] = time.Now()
	}
}

func (h *simHistory) steerTaken(requestID, steerID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steers[[2]string{requestID, steerID}] = time.Now()
}

func (h *simHistory) reads(s *simSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sessions = append(h.sessions, s)
}

func (h *simHistory) effect(callID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.effects[callID]++
}

// begin records that an actor asks a register for something.
func (h *simHistory) begin(kind registerKind, key, value, expect string) *simOp {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := string(kind) + " " + key
	if h.registers[name] == nil {
		h.registers[name] = &simRegister{kind: kind, key: key}
	}
	op := &simOp{history: h, input: registerInput{kind, value, expect}, call: int64(time.Since(h.start))}
	op.output.unknown = true
	h.registers[name].ops = append(h.registers[name].ops, op)
	return op
}
