package bus

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/agentbus/agentbus/pkg/event"
)

// check compares what the actors of a finished run saw with what is stored.
func (w *simWorld) check() {
	for _, call := range w.calls() {
		log := w.log(call.requestID)
		if !log.terminal() {
			w.violate("request %s was accepted and has no end", call.requestID)
		}
		// One that was aborted between its record and its place on the thread never has one.
		if got := w.places(call); got > 1 || got == 0 && log.worked() {
			w.violate("request %s was accepted and has %d places on its thread", call.requestID, got)
		}
	}
	for _, m := range w.parked() {
		w.violate("pointer %s is left in the backlog", m.Subject)
	}
	for _, call := range w.refused {
		if w.places(call) > 0 {
			w.violate("request %s was refused and has a place on its thread", call.requestID)
		}
	}
	threads := map[string]bool{}
	for requestID := range w.plans {
		w.checkLog(requestID)
	}
	for _, call := range w.taken {
		threads[call.threadID] = true
	}
	for threadID := range threads {
		w.checkThread(threadID)
	}
	w.checkWriters()
	w.checkAborts()
	w.checkSteers()
	w.checkSessions()
	for callID, times := range w.effects {
		if times > 1 {
			w.violate("tool call %s took effect %d times", callID, times)
		}
	}
	for name, r := range w.registers {
		if !r.linearizable(w.final(r)) {
			w.violate("%s: the answers to its callers have no order; in the end it is %q:%s", name, w.final(r), r)
		}
	}
	slices.Sort(w.violations)
}

func (r *simRegister) String() string {
	var b bytes.Buffer
	for _, op := range r.ops {
		fmt.Fprintf(&b, "\n\t%d-%d %q expects %q: won=%t value=%q unknown=%t",
			op.call, op.end, op.input.value, op.input.expect, op.output.won, op.output.value, op.output.unknown)
	}
	return b.String()
}

// places counts the records that a call has on its thread.
func (w *simWorld) places(call simCall) int {
	n := 0
	for _, t := range w.thread(call.threadID) {
		if t.RequestID == call.requestID {
			n++
		}
	}
	return n
}

// checkLog checks that events are dense, epochs rise with claims alone, the end is one and last, and no step is done
// twice.
func (w *simWorld) checkLog(requestID string) {
	log := w.log(requestID)
	var next, epoch uint64
	steps, terminals := 0, 0
	steers := map[string]bool{}
	for i, f := range log {
		if f.First != next {
			w.violate("log %s: event %d follows event %d", requestID, f.First, next)
		}
		next = f.Next()
		claims := len(f.Names) > 0 && f.Names[0] == event.NameClaim
		if claims != (f.Epoch > epoch) || f.Epoch < epoch || claims && f.Epoch != epoch+1 {
			w.violate("log %s: frame %d of epoch %d follows epoch %d, claim: %t", requestID, i, f.Epoch, epoch, claims)
		}
		epoch = f.Epoch
		events, err := f.Events()
		if err != nil {
			w.violate("log %s: %v", requestID, err)
		}
		for _, e := range events {
			if event.IsTerminal(e.Body) {
				terminals++
			}
			switch b := e.Body.(type) {
			case event.Custom:
				if want := fmt.Sprintf("step-%d", steps); b.Type != want {
					w.violate("log %s: %s is in the place of %s", requestID, b.Type, want)
				}
				steps++
			case event.Input:
				if steers[b.SteerID] {
					w.violate("log %s: input %q is there twice", requestID, b.SteerID)
				}
				steers[b.SteerID] = true
			}
		}
	}
	if terminals > 1 || terminals == 1 && !log.terminal() {
		w.violate("log %s has %d terminal events, and one is last: %t", requestID, terminals, log.terminal())
	}
}

// checkThread checks that the records of a thread are dense, that no action is resolved twice, and that only one request
// ran at a time. One that was aborted before it did anything never ran.
func (w *simWorld) checkThread(threadID string) {
	var end uint64
	var before string
	resolved := map[string]string{}
	for i, t := range w.thread(threadID) {
		if t.Index != i {
			w.violate("thread %s: record %d has index %d", threadID, i, t.Index)
		}
		for _, action := range t.Resolves {
			if winner := resolved[action]; winner != "" {
				w.violate("action %s is resolved by %s and by %s", action, winner, t.RequestID)
			}
			resolved[action] = t.RequestID
		}
		log := w.log(t.RequestID)
		if !log.worked() {
			continue
		}
		if log[0].Sequence < end {
			w.violate("thread %s: %s starts at %d, before %s ends at %d", threadID, t.RequestID, log[0].Sequence, before, end)
		}
		end, before = log[len(log)-1].Sequence, t.RequestID
	}
}

// checkWriters checks that what was confirmed to a writer as stored is in the log.
func (w *simWorld) checkWriters() {
	for _, s := range w.stored {
		held := slices.ContainsFunc(w.log(s.log.RequestID), func(f event.Frame) bool {
			return f.Epoch == s.epoch && f.First < s.n && s.n <= f.Next()
		})
		if !held {
			w.violate("log %s: event %d of epoch %d was acknowledged and is not there", s.log.RequestID, s.n-1, s.epoch)
		}
	}
}

// left checks that a runner which goes while its process lives, because it can write no more, was fenced by a later claim.
func (w *simWorld) left(r *simRun) {
	err := r.writer.Err()
	if err == nil || r.ctx.Err() != nil {
		return
	}
	w.cluster.mu.Lock()
	log := w.log(r.log.RequestID)
	w.cluster.mu.Unlock()
	switch epoch := r.writer.Epoch(); {
	case !errors.Is(err, broker.ErrFenced):
		w.violate("log %s: the writer of epoch %d gave up: %v", r.log.RequestID, epoch, err)
	case len(log) == 0 || log[len(log)-1].Epoch <= epoch:
		w.violate("log %s: the writer of epoch %d was fenced without a later claim", r.log.RequestID, epoch)
	}
}

// checkAborts checks that a request is aborted whose abort was taken before its runner looked for the last time.
func (w *simWorld) checkAborts() {
	for requestID, at := range w.aborts {
		log := w.log(requestID)
		if !log.terminal() {
			continue
		}
		last := log[len(log)-1]
		if last.Names[len(last.Names)-1] == event.NameAborted {
			continue
		}
		if asked := w.listens[claimOf(broker.LogID{Tenant: simTenant, RequestID: requestID}, last.Epoch)]; asked.After(at) {
			w.violate("log %s: the abort was taken %s before the last look for one, and the request is done", requestID, asked.Sub(at))
		}
	}
}

// checkSteers checks that a runner has read each steer that was stored before its last read.
func (w *simWorld) checkSteers() {
	for steer, at := range w.steers {
		log := w.log(steer[0])
		if !log.terminal() {
			continue
		}
		last := log[len(log)-1]
		if last.Names[len(last.Names)-1] == event.NameAborted || bytes.Contains(log.lines(), []byte(`"steerId":"`+steer[1]+`"`)) {
			continue
		}
		if asked := w.listens[claimOf(broker.LogID{Tenant: simTenant, RequestID: steer[0]}, last.Epoch)]; asked.After(at) {
			w.violate("log %s: steer %s was accepted before the runner's last read, which does not have it", steer[0], steer[1])
		}
	}
}

// checkSessions checks that every client received the stored log, as far as it read.
func (w *simWorld) checkSessions() {
	for _, s := range w.sessions {
		want := w.log(s.log.RequestID).lines()
		for _, hole := range s.holes {
			w.violate("a client of %s sees a hole: %s", s.log.RequestID, hole)
		}
		if got := s.lines.Bytes(); !bytes.HasPrefix(want, got) || s.ended && len(got) != len(want) {
			w.violate("a client of %s sees another log than there is: %d bytes of %d", s.log.RequestID, len(got), len(want))
		}
	}
}

// ender is who ended a request, and how; "" before its end.
func (w *simWorld) ender(requestID string) string {
	log := w.log(requestID)
	if !log.terminal() {
		return ""
	}
	var runner string
	var terminal event.Name
	for _, f := range log {
		events, _ := f.Events() // checkLog reads them too
		for _, e := range events {
			if claim, ok := e.Body.(event.Claim); ok {
				runner = claim.Runner
			}
			terminal = e.Body.Name()
		}
	}
	return runner + "/" + string(terminal)
}
