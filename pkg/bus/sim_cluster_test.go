package bus

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/bus/eventlog"
	"github.com/agentbus/agentbus/pkg/bus/internal/broker"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// simCluster answers as JetStream does, with one replica or with three: they check in different order, and only three
// have writes in process and replicas that hang behind.
type simCluster struct {
	dice     dice
	replicas int
	missing  safeguard

	mu      sync.Mutex
	streams map[string]*simStream
	subs    []*simSub
	away    time.Time // until then no server answers
	faults  faults
	seen    map[string]int // what has happened, by name
	trace   uint64         // of everything that was stored, to compare runs
	start   time.Time
	story   strings.Builder // of the run, for the report
}

// simStream is a stream as its leader has it. The sequence of a message is its place, counted from 1.
type simStream struct {
	messages []broker.Message
	ids      map[string]uint64 // sequence by Msg-Id; 0 = in process
	writing  map[string]bool   // subjects with a write in process
	has      [3]int            // how many messages each replica has applied; the first is the leader
	journal  bool              // it republishes; others have room for one message a subject
	queue    *simQueue         // nil where nothing is delivered
	removed  map[uint64]bool   // sequences of messages that were acknowledged or deleted
}

// simSub is a subscription of a process.
type simSub struct {
	process  *simProcess
	subject  string
	messages chan *nats.Msg
	stands   time.Time // at the broker, from then on
	last     time.Time // when the newest message arrives: they keep their order
	stopped  bool
}

func newSimCluster(d dice, replicas int, missing safeguard) *simCluster {
	c := &simCluster{dice: d, replicas: replicas, missing: missing, streams: map[string]*simStream{}, seen: map[string]int{}}
	for _, name := range []string{"EVENTS", "RESULTS", "REQUESTS", "BACKLOG", "TOOLS"} {
		journal := name == "EVENTS" || name == "RESULTS"
		s := &simStream{journal: journal, ids: map[string]uint64{}, writing: map[string]bool{}, removed: map[uint64]bool{}}
		if name == "REQUESTS" || name == "TOOLS" {
			s.queue = &simQueue{cluster: c, stream: s, name: name}
		}
		c.streams["AGENTBUS_"+name] = s
	}
	c.start = time.Now()
	return c
}

// saw counts what has happened. It must be called with mu held.
func (c *simCluster) saw(what string) { c.seen[what]++ }

// say adds to the story. It must be called with mu held.
func (c *simCluster) say(who, what string) {
	fmt.Fprintf(&c.story, "%10.4fs %s: %s\n", time.Since(c.start).Seconds(), strings.TrimPrefix(who, broker.DefaultPrefix+"."), what)
}

func (c *simCluster) send(who, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.say(who, what)
}

func (c *simCluster) note(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saw(what)
}

// home is the stream of a subject.
func (c *simCluster) home(subject string) *simStream {
	switch kind, _, _ := strings.Cut(strings.TrimPrefix(subject, broker.DefaultPrefix+"."), "."); kind {
	case broker.KindStarted, broker.KindResult:
		return c.streams["AGENTBUS_RESULTS"]
	case broker.KindRequest:
		return c.streams["AGENTBUS_REQUESTS"]
	case broker.KindBacklog:
		return c.streams["AGENTBUS_BACKLOG"]
	case broker.KindTool:
		return c.streams["AGENTBUS_TOOLS"]
	default:
		return c.streams["AGENTBUS_EVENTS"]
	}
}

// publish takes a message in. answer is called when the broker answers, if it does; mu must be held, and is then.
func (c *simCluster) Publish(msg *nats.Msg, f fate, answer func(broker.PubAck, error)) {
	s := c.home(msg.Subject)
	msgID := msg.Header.Get(jetstream.MsgIDHeader)
	if c.replicas == 1 {
		if seq, ok := s.unexpected(msg); ok {
			c.saw("wrong last sequence")
			answer(refusal(broker.CodeWrongLast, 400, seq), nil)
			return
		}
		if seq := s.ids[msgID]; seq > 0 {
			c.saw("duplicate")
			answer(broker.PubAck{Sequence: seq, Duplicate: true}, nil)
			return
		}
		answer(c.keep(s, msg, f), nil)
		return
	}
	if seq, ok := s.ids[msgID]; ok && seq > 0 {
		c.saw("duplicate")
		answer(broker.PubAck{Sequence: seq, Duplicate: true}, nil)
		return
	} else if ok {
		c.saw("its id is in process")
		answer(refusal(broker.CodeInProcess, 409, 0), nil)
		return
	}
	if msg.Header.Get(jetstream.ExpectedLastSubjSeqHeader) != "" && s.writing[conditional(msg)] {
		c.saw("its subject is in process")
		answer(refusal(broker.CodeWrongLastR3, 400, 0), nil)
		return
	}
	if seq, ok := s.unexpected(msg); ok {
		c.saw("wrong last sequence")
		answer(refusal(broker.CodeWrongLast, 400, seq), nil)
		return
	}
	c.propose(s, msg, f, answer)
}

// propose commits a message on three replicas after a while, or drops it with its leader. mu must be held.
func (c *simCluster) propose(s *simStream, msg *nats.Msg, f fate, answer func(broker.PubAck, error)) {
	msgID := msg.Header.Get(jetstream.MsgIDHeader)
	if msgID != "" {
		s.ids[msgID] = 0
	}
	s.writing[msg.Subject], s.writing[conditional(msg)] = true, true
	time.AfterFunc(f.commit, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(s.ids, msgID)
		delete(s.writing, msg.Subject)
		delete(s.writing, conditional(msg))
		if f.dropped {
			c.saw("dropped by a leader that fell")
			return
		}
		answer(c.keep(s, msg, f), nil)
	})
}

// unexpected reports that a message expects another newest message on its subject, and which there is.
func (s *simStream) unexpected(msg *nats.Msg) (newest uint64, wrong bool) {
	expected := msg.Header.Get(jetstream.ExpectedLastSubjSeqHeader)
	if expected == "" {
		return 0, false
	}
	m, _ := s.last(conditional(msg), len(s.messages))
	return m.Sequence, expected != strconv.FormatUint(m.Sequence, 10)
}

func refusal(code jetstream.ErrorCode, status int, newest uint64) broker.PubAck {
	return broker.PubAck{Error: &jetstream.APIError{
		Code: status, ErrorCode: code, Description: "wrong last sequence: " + strconv.FormatUint(newest, 10),
	}}
}

// conditional is the subject whose newest message a message's condition is about.
func conditional(msg *nats.Msg) string {
	return cmp.Or(msg.Header.Get(jetstream.ExpectedLastSubjSeqSubjHeader), msg.Subject)
}

// keep stores a message, unless its stream has one on the subject and room for no more. mu must be held.
func (c *simCluster) keep(s *simStream, msg *nats.Msg, f fate) broker.PubAck {
	if _, err := s.last(msg.Subject, len(s.messages)); !s.journal && err == nil {
		c.saw("no second message on its subject")
		return refusal(broker.CodeNoSpace, 400, 0)
	}
	return broker.PubAck{Sequence: c.store(s, msg, f)}
}

// store appends a message and sends it to the subscribers. mu must be held.
func (c *simCluster) store(s *simStream, msg *nats.Msg, f fate) uint64 {
	m := broker.Message{
		Subject: msg.Subject, Sequence: uint64(len(s.messages) + 1), Time: time.Now(), Header: msg.Header, Data: msg.Data,
	}
	s.messages = append(s.messages, m)
	c.say(m.Subject, fmt.Sprintf("stored at %d %s %s", m.Sequence, m.Header.Get(eventlog.HeaderFrame), m.Header.Get(eventlog.HeaderEvents)))
	if msgID := msg.Header.Get(jetstream.MsgIDHeader); msgID != "" {
		s.ids[msgID] = m.Sequence
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(m.Subject + m.Time.String() + strconv.Itoa(len(m.Data))))
	c.trace = c.trace*31 + h.Sum64()
	s.has[0] = len(s.messages)
	for i, lag := range f.lags {
		time.AfterFunc(lag, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			s.has[i+1] = max(s.has[i+1], int(m.Sequence))
		})
	}
	if s.queue != nil {
		s.queue.offer(&simJob{msg: msg, sequence: m.Sequence, queue: s.queue})
	}
	if s.journal {
		c.republish(m)
	}
	return m.Sequence
}

// republish sends what was stored to those who listen. mu must be held.
func (c *simCluster) republish(m broker.Message) {
	live := broker.DefaultPrefix + "." + broker.KindLive + m.Subject[len(broker.DefaultPrefix):]
	header := maps.Clone(m.Header)
	header.Set("Nats-Subject", m.Subject)
	header.Set("Nats-Sequence", strconv.FormatUint(m.Sequence, 10))
	header.Set("Nats-Time-Stamp", m.Time.Format(time.RFC3339Nano))
	now := time.Now()
	for _, sub := range c.subs {
		if sub.stopped || now.Before(sub.stands) || now.Before(c.away) || !matches(sub.subject, live) {
			continue
		}
		luck := c.dice.at("live", sub.process.name, live, strconv.FormatUint(m.Sequence, 10))
		if luck.Float64() < c.faults.unheard {
			c.saw("live message lost")
			continue
		}
		arrives := now.Add(spell(luck, quick, slow))
		if !arrives.After(sub.last) {
			arrives = sub.last.Add(time.Nanosecond)
		}
		sub.last = arrives
		msg := &nats.Msg{Subject: live, Header: header, Data: m.Data}
		time.AfterFunc(arrives.Sub(now), func() { c.hand(sub, msg) })
	}
}

// hand gives a live message to its subscriber, if he has room for it.
func (c *simCluster) hand(sub *simSub, msg *nats.Msg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if sub.stopped {
		return
	}
	select {
	case sub.messages <- msg:
	default:
		c.saw("slow subscriber")
	}
}

// view is how much of a stream the replica that answers has.
func (c *simCluster) view(s *simStream, f fate) int {
	if c.replicas == 1 {
		return len(s.messages)
	}
	if s.has[f.replica] < len(s.messages) {
		c.saw("stale read")
	}
	return s.has[f.replica]
}

// last is the newest message on a subject, of the first have.
func (s *simStream) last(subject string, have int) (broker.Message, error) {
	for _, m := range slices.Backward(s.messages[:have]) {
		if matches(subject, m.Subject) && !s.removed[m.Sequence] {
			return m, nil
		}
	}
	return broker.Message{}, broker.ErrNotFound
}

// next are the messages on a subject from a sequence on, of the first have, at most limit, and whether more follow.
func (s *simStream) next(subject string, from uint64, have, limit int) (messages []broker.Message, more bool) {
	for _, m := range s.messages[min(int(max(from, 1))-1, have):have] {
		if !matches(subject, m.Subject) || s.removed[m.Sequence] {
			continue
		}
		if len(messages) == limit {
			return messages, true
		}
		messages = append(messages, m)
	}
	return messages, false
}

// matches reports whether a subject is, or lies under, a pattern of whole tokens, stars, and perhaps ">" in the end.
func matches(pattern, subject string) bool {
	if pattern == subject {
		return true
	}
	if under, ok := strings.CutSuffix(pattern, ">"); ok {
		return strings.HasPrefix(subject, under)
	}
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	return len(want) == len(have) && strings.Contains(pattern, "*") && slices.EqualFunc(want, have, func(w, h string) bool {
		return w == "*" || w == h
	})
}

// fork copies a message, as a connection does: the caller may use its bytes again.
func fork(msg *nats.Msg) *nats.Msg {
	return &nats.Msg{Subject: msg.Subject, Header: maps.Clone(msg.Header), Data: bytes.Clone(msg.Data)}
}
