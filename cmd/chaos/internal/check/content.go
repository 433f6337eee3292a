package check

import (
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// providerScripted is the backend whose words a prompt prescribes.
const providerScripted = "scripted"

// contents is I15: of each request what its terminal event repeats, and of each thread what the scripts prescribe.
func (r *Run) contents() []Violation {
	found := r.each(repeated)
	for _, id := range sorted(r.Threads) {
		s := &scripts{}
		for _, t := range r.Threads[id] {
			l := r.Logs[ID{id.Tenant, t.RequestID}]
			if t.Deleted || l == nil || l.Terminal() == "" {
				continue
			}
			found = append(found, s.request(ID{id.Tenant, t.RequestID}, l)...)
		}
	}
	return found
}

// Scripted counts the requests whose words a script prescribes, and that are compared with it.
func (r *Run) Scripted() int {
	compared := 0
	for _, id := range sorted(r.Threads) {
		s := &scripts{}
		for _, t := range r.Threads[id] {
			if l := r.Logs[ID{id.Tenant, t.RequestID}]; !t.Deleted && l != nil && l.Terminal() != "" {
				s.request(ID{id.Tenant, t.RequestID}, l)
				if s.turns != nil {
					compared++
				}
			}
		}
	}
	return compared
}

// repeated compares what a terminal event says of the answer with the blocks of the log.
func repeated(id ID, l *Log) []Violation {
	all := l.lines()
	if l.Terminal() == "" || len(all) == 0 {
		return nil
	}
	var told []event.Content
	switch b := all[len(all)-1].body.(type) {
	case event.Done:
		if strings.Contains(string(b.Extra.JSON()), "truncated") {
			return nil
		}
		told = b.Content
	case event.Aborted:
		if strings.Contains(string(b.Extra.JSON()), "truncated") {
			return nil
		}
		told = b.Content
	default:
		return nil
	}
	want := contentOf(foldOf(id, all))
	if got, wanted := text(told), text(want); got != wanted {
		return []Violation{violation(id, "its end says %.300s, and its blocks that count are %.300s", got, wanted)}
	}
	return nil
}

// contentOf is the blocks of a log that count.
func contentOf(f *fold) []event.Content {
	var all []event.Content
	for _, b := range f.kept() {
		all = append(all, b.content)
	}
	return all
}

// text is a value as JSON that can be compared.
func text(value any) string {
	line, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return err.Error()
	}
	return canonical(line)
}

// scripts is how far the script on a thread has come.
type scripts struct {
	turns []prescribed // of the newest prompt; nil = the prompt is not a script, or its progress is unknown
	next  int          // turn to come
}

// said is what a user says.
func (s *scripts) said(in event.Input) {
	if len(in.Messages) == 0 {
		return
	}
	var parts []string
	for _, part := range in.Messages[len(in.Messages)-1].Content {
		if part.Type == event.ContentText {
			parts = append(parts, part.Text)
		}
	}
	s.turns, s.next = nil, 0
	if turns, ok := turnsOf(strings.Join(parts, "\n")); ok {
		s.turns = turns
	}
}

// request compares the blocks of a request that count with what the script prescribes, turn by turn.
func (s *scripts) request(id ID, l *Log) []Violation {
	all := l.lines()
	f := foldOf(id, all)
	var found []Violation
	var turn []*block // those of the turn under way
	waiting := f.kept()
	waiting = slices.DeleteFunc(waiting, func(b *block) bool { return b.content.Type == event.ContentToolResult })
	ran := false
	for _, one := range all {
		i := slices.IndexFunc(waiting, func(b *block) bool { return b.start == one.n })
		if i >= 0 {
			turn = append(turn, waiting[i])
		}
		switch b := one.body.(type) {
		case event.Metadata:
			if b.Provider != providerScripted {
				s.turns = nil
			}
		case event.Input:
			if len(turn) > 0 && s.turns != nil {
				found = append(found, violation(id, "event %d takes up what the user says within a turn", one.n))
			}
			s.said(b)
		case event.UsageSoFar:
			found = append(found, s.turn(id, turn, false)...)
			turn, ran = nil, true
		case event.Done:
			if len(turn) > 0 && s.turns != nil {
				found = append(found, violation(id, "it is done within a turn, which said %s", brief(turn[0].content)))
			}
			found = append(found, s.done(id, b.FinishReason, ran)...)
		case event.Error, event.Aborted:
			found = append(found, s.turn(id, turn, true)...)
			s.turns = nil // what the next runner makes of half a turn is not prescribed
		}
	}
	return found
}

// turn compares a turn; one that is cut may end anywhere.
func (s *scripts) turn(id ID, got []*block, cut bool) []Violation {
	if s.turns == nil {
		return nil
	}
	var want []event.Content
	at := s.next
	if s.next++; at < len(s.turns) {
		want = s.turns[at].blocks
	}
	for i, b := range got {
		if i >= len(want) {
			return []Violation{violation(id, "turn %d of the script says %s, which the script does not prescribe", at, brief(b.content))}
		}
		if !same(b.content, want[i], cut && i == len(got)-1) {
			return []Violation{violation(id, "turn %d of the script says %s, and the script prescribes %s", at, brief(b.content), brief(want[i]))}
		}
	}
	if len(got) < len(want) && !cut {
		return []Violation{violation(id, "turn %d of the script leaves out %s", at, brief(want[len(got)]))}
	}
	return nil
}

// done checks that a request went as far as its script.
func (s *scripts) done(id ID, finish event.FinishReason, ran bool) []Violation {
	switch {
	case s.turns == nil:
	case finish == event.FinishStop && s.next != len(s.turns):
		return []Violation{violation(id, "it is done after %d turns, and the script has %d", s.next, len(s.turns))}
	case finish == event.FinishActionRequired && ran && !s.turns[min(s.next, len(s.turns))-1].waits():
		return []Violation{violation(id, "it waits for an action after turn %d, which asks for none", s.next-1)}
	}
	return nil
}
