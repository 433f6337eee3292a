package aisdk

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// reader turns the chunks of an answer into those of a turn, across all connections that bring them: each connection begins with
// the first chunk.
type reader struct {
	agent   upstream.Agent
	settle  time.Duration
	turn    backend.Turn
	emit    backend.Emit
	outcome backend.Outcome
	stated  bool // the state of the session was emitted

	message   string // id of the message
	metadata  metadata
	ended     bool // the answer has its finish
	discarded bool // the agent discarded a part of the answer that was shown
	news      int  // chunks that said something new

	prose  []*prose          // texts and reasonings, in the order of their starts
	starts int               // of them in this connection
	open   map[string]*prose // by kind and id
	last   *prose            // that was emitted last, and has not been completed

	events     int // custom events that were emitted
	seenEvents int // of them in this connection

	calls map[string]*call // by the agent's ids
	order []*call
	asked int // calls of ours

	earlier []string        // ids of messages that a stream must not have; nil = any
	repeat  map[string]bool // calls of the conversation that the stream repeats: nothing before the last of them is new
}

// prose is a text or a reasoning.
type prose struct {
	reasoning bool
	sent      int // bytes that were emitted
	seen      int // bytes in this connection
	complete  bool
	metadata  json.RawMessage
}

func newReader(b *Backend, turn backend.Turn, emit backend.Emit) *reader {
	return &reader{
		agent: b.agent.Named(turn.AgentID), settle: b.settle, turn: turn, emit: emit, open: map[string]*prose{}, calls: map[string]*call{},
	}
}

// rejoin prepares the reader for a connection that repeats what came until now.
func (r *reader) rejoin() {
	r.starts, r.seenEvents, r.open = 0, 0, map[string]*prose{}
	for _, p := range r.prose {
		p.seen = 0
	}
	for _, c := range r.order {
		if !c.complete {
			c.args = nil
		}
	}
}

// repeats prepares the reader for the stream of an earlier attempt: what the conversation has of it is not new.
func (r *reader) repeats(earlier []string) {
	r.earlier, r.repeat = earlier, map[string]bool{}
	for _, m := range r.turn.Messages {
		if m.Role == backend.User {
			clear(r.repeat)
		}
		for _, p := range m.Parts {
			if p, ok := p.(backend.Call); ok && read(p.Signature).ID != "" && read(p.Signature).Approval == "" {
				r.repeat[read(p.Signature).ID] = true
			}
		}
	}
}

// begins prepares the reader for a new answer.
func (r *reader) begins() { r.earlier, r.repeat = nil, nil }

// read reads the chunks of a connection to their end.
func (r *reader) read(ahead *upstream.Ahead) error {
	for {
		wait := time.Duration(0)
		if slices.ContainsFunc(r.order, r.waits) {
			wait = r.settle
		}
		value, err := ahead.Next(wait)
		text := value.Data
		switch {
		case errors.Is(err, upstream.ErrNothingYet):
			if err := r.startCalls(); err != nil {
				return err
			}
			continue
		case err != nil && r.ended && errors.Is(err, backend.ErrCut):
			return r.finish()
		case err != nil:
			return err
		case string(text) == done:
			return r.finish()
		}
		var c chunk
		if err := jsonv2.Unmarshal(text, &c); err != nil {
			return r.agent.API().Malformed(err)
		}
		if err := r.take(c); err != nil {
			return err
		}
	}
}

// take emits what a chunk says.
func (r *reader) take(c chunk) error {
	r.learn(c)
	switch c.Type {
	case start:
		return r.begin(c)
	case finish:
		r.ended = true
		r.outcome.Finish = finishReason(c.FinishReason, r.metadata.FinishReason)
		if c.FinishReason == "error" {
			return r.agent.Failed("its answer ended with an error", r.metadata.Error.Retryable)
		}
	case failed:
		return r.agent.Failed(c.ErrorText, r.metadata.Error.Retryable)
	case aborted:
		return r.agent.Failed("it has aborted its answer", true)
	case resetStep:
		r.discarded = true
		return r.agent.Cut(errors.New("it discarded a part of its answer"))
	case textStart, textDelta, textEnd, reasoningStart, reasoningDelta, reasoningEnd:
		return r.say(c)
	case toolInputStart, toolInputDelta, toolInputAvailable, toolInputError:
		return r.input(c)
	case toolOutputAvailable, toolOutputError, toolOutputDenied:
		return r.output(c)
	case toolApprovalRequest:
		return r.ask(c)
	case sourceURL, sourceDocument, file, reasoningFile:
		return r.source(c)
	default:
		if name, ok := strings.CutPrefix(c.Type, data); ok {
			return r.data(name, c)
		}
	}
	return nil
}

// begin takes the start of the message. A connection that continues the answer has the same message.
func (r *reader) begin(c chunk) error {
	if slices.Contains(r.earlier, c.MessageID) {
		return errEarlier
	}
	if r.message != "" && c.MessageID != "" && c.MessageID != r.message {
		return r.agent.Cut(errors.New("the connection continues with another message"))
	}
	if c.MessageID != "" {
		r.message = c.MessageID
	}
	r.news = max(r.news, 1)
	return nil
}

// learn reads the metadata of the message, which later metadata completes.
func (r *reader) learn(c chunk) {
	if len(c.MessageMetadata) == 0 {
		return
	}
	r.metadata.learn(c.MessageMetadata)
	r.outcome.Usage = r.metadata.TotalUsage.usage()
	if r.outcome.Usage == (event.Usage{}) {
		r.outcome.Usage = r.metadata.Usage.usage()
	}
	r.outcome.Model = cmp.Or(r.metadata.Model, r.outcome.Model)
}

// say takes a part of a text or of a reasoning.
func (r *reader) say(c chunk) error {
	kind, _, _ := strings.Cut(c.Type, "-")
	key := kind + " " + c.ID
	p := r.open[key]
	switch {
	case c.Type == textStart || c.Type == reasoningStart:
		p = r.started(c.Type == reasoningStart)
		r.open[key] = p
	case p == nil:
		return r.agent.Broke("%s %q has no start", c.Type, c.ID)
	}
	if len(c.ProviderMetadata) > 0 {
		p.metadata = c.ProviderMetadata
	}
	if c.Type == textEnd || c.Type == reasoningEnd {
		delete(r.open, key)
		return r.complete(p)
	}
	p.seen += len(c.Delta)
	if p.seen <= p.sent {
		return nil
	}
	more := c.Delta[len(c.Delta)-(p.seen-p.sent):]
	p.sent = p.seen
	return r.show(p, more)
}

// started returns the next text or reasoning of the connection.
func (r *reader) started(reasoning bool) *prose {
	r.starts++
	if r.starts > len(r.prose) {
		r.prose = append(r.prose, &prose{reasoning: reasoning})
	}
	return r.prose[r.starts-1]
}

// show emits what was added to a text or a reasoning.
func (r *reader) show(p *prose, more string) error {
	if len(r.repeat) > 0 {
		return nil
	}
	r.news++
	if err := r.startCalls(); err != nil {
		return err
	}
	if r.last != p {
		if err := r.endProse(); err != nil {
			return err
		}
	}
	r.last = p
	if p.reasoning {
		return r.emit(backend.ThinkingDelta(more))
	}
	return r.emit(backend.TextDelta(more))
}

// complete emits the end of a text or a reasoning. A reasoning that the provider hides has nothing but its metadata.
func (r *reader) complete(p *prose) error {
	switch {
	case p.complete, len(r.repeat) > 0:
		return nil
	case r.last == p:
		return r.endProse()
	case p.reasoning && p.sent == 0 && len(p.metadata) > 0:
		if err := r.endProse(); err != nil {
			return err
		}
		r.last = p
		return r.endProse()
	default:
		return nil
	}
}

// endProse completes the text or reasoning that was emitted last, with what the agent wants back.
func (r *reader) endProse() error {
	p := r.last
	r.last = nil
	if p == nil {
		return nil
	}
	p.complete = true
	n := note{Message: r.message, Metadata: p.metadata}.String()
	if p.reasoning {
		return r.emit(backend.Signature(n))
	}
	return r.emit(backend.TextSignature(n))
}

// finish ends the turn.
func (r *reader) finish() error {
	if err := r.endProse(); err != nil {
		return err
	}
	if err := r.leave(); err != nil {
		return err
	}
	if r.outcome.Finish == "" {
		r.outcome.Finish = event.FinishStop
	}
	if r.asked > 0 {
		r.outcome.Finish = event.FinishToolCalls
	}
	return nil
}

// finishReason returns why an answer ended: native is the reason that agentbus gives.
func finishReason(reason string, native event.FinishReason) event.FinishReason {
	switch {
	case slices.Contains([]event.FinishReason{event.FinishMaxTurns, event.FinishBudget, event.FinishRefusal}, native):
		return native
	case reason == "length":
		return event.FinishLength
	case reason == "content-filter":
		return event.FinishContentFilter
	default:
		return event.FinishStop
	}
}
