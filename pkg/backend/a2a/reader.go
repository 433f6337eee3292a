package a2a

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/event"
)

// reader turns the updates of a task into the chunks of a turn, across all connections that bring them.
type reader struct {
	agent   upstream.Agent
	turn    backend.Turn
	emit    backend.Emit
	outcome backend.Outcome
	used    event.Usage // of the session before the turn

	place     place
	about     metadata
	updates   int  // that came
	news      int  // chunks that said something new
	discarded bool // the agent discarded a part of the answer that was shown

	artifacts map[string]*shown
	open      *note             // of the text that was emitted last, and has not been completed
	said      map[string]bool   // messages of the agent, by id
	running   map[string]string // tools of an agent of agentbus, by id
	answered  string            // the message by which the task asked, if the turn answers it
	earlier   bool              // the next task has what earlier turns have shown
	asked     int               // calls of ours
}

// shown is what was shown of an artifact.
type shown struct {
	text  []byte
	at    int // bytes of the text that the newest version of the artifact has
	files int // parts that are not text
	seen  int // of them in the newest version
}

func newReader(agent upstream.Agent, turn backend.Turn, contextID string, emit backend.Emit) *reader {
	r := &reader{
		agent: agent, turn: turn, emit: emit, place: place{Context: contextID}, artifacts: map[string]*shown{}, said: map[string]bool{},
		running: map[string]string{},
	}
	for _, m := range turn.Messages {
		if m.Role == backend.Assistant {
			r.answered, r.earlier = "", false
		}
		for _, p := range m.Parts {
			switch p := p.(type) {
			case backend.Text:
				if n := read(p.Signature); n.Artifact != "" {
					one := r.artifact(n.Artifact)
					one.text = append(one.text, p.Text...)
				}
			case backend.Call:
				if n := read(p.Signature); n.Message != "" || n.Action != "" {
					r.answered, r.earlier = n.Message, true
				}
			}
		}
	}
	return r
}

func (r *reader) artifact(artifactID string) *shown {
	one := r.artifacts[artifactID]
	if one == nil {
		one = &shown{}
		r.artifacts[artifactID] = one
	}
	return one
}

// take emits what an update says, and reports whether the turn has ended.
func (r *reader) take(u update) (ended bool, err error) {
	switch {
	case u.Task != nil:
		return r.task(*u.Task)
	case u.Message != nil:
		if err := r.locate(u.Message.ContextID, ""); err != nil {
			return false, err
		}
		r.learn(about(u.Message.Metadata))
		if err := r.text(u.Message.text(), note{}); err != nil {
			return false, err
		}
		return true, r.finish()
	case u.Status != nil:
		if err := r.locate(u.Status.ContextID, u.Status.TaskID); err != nil {
			return false, err
		}
		r.learn(about(u.Status.Metadata))
		return r.status(u.Status.Status)
	case u.Artifact != nil:
		if err := r.locate(u.Artifact.ContextID, u.Artifact.TaskID); err != nil {
			return false, err
		}
		return false, r.add(u.Artifact.Artifact, u.Artifact.Append)
	default:
		return false, nil // of a later version
	}
}

// task takes a task as it is: the first update of a stream.
func (r *reader) task(t task) (ended bool, err error) {
	if err := r.locate(t.ContextID, t.ID); err != nil {
		return false, err
	}
	r.learn(about(t.Metadata))
	for _, a := range t.Artifacts {
		if r.earlier {
			r.artifact(a.ID).files = len(a.Parts)
		}
		if err := r.add(a, false); err != nil {
			return false, err
		}
	}
	waits := t.Status.State == stateInputRequired || t.Status.State == stateAuthRequired
	first := r.earlier
	r.earlier = false
	if waits && t.Status.Message != nil && t.Status.Message.ID != "" {
		first = t.Status.Message.ID == r.answered
	}
	if waits && first {
		return false, nil // it has not read the answer
	}
	return r.status(t.Status)
}

// locate notes where the turn runs, and emits it as the state of the session.
func (r *reader) locate(contextID, taskID string) error {
	at := place{Context: cmp.Or(contextID, r.place.Context), Task: cmp.Or(taskID, r.place.Task)}
	if at == r.place || at.Context == "" {
		return nil
	}
	if r.place.Task != "" && at.Task != r.place.Task {
		return r.agent.Broke("the stream of task %.80q has updates of task %.80q", r.place.Task, at.Task)
	}
	r.place = at
	r.news++
	return r.emit(backend.State{ID: at.String(), Used: r.used})
}

// learn notes the usage and what else metadata has.
func (r *reader) learn(m metadata) {
	if m.Usage != (event.Usage{}) {
		u := m.Usage
		u.InputTokens, u.OutputTokens, u.CostUSD = max(0, u.InputTokens), max(0, u.OutputTokens), max(0, u.CostUSD)
		u.ReasoningTokens, u.CachedInputTokens, u.CacheWriteTokens = max(0, u.ReasoningTokens), max(0, u.CachedInputTokens), max(0, u.CacheWriteTokens)
		r.outcome.Usage = u
	}
	r.outcome.Model = cmp.Or(m.Model, r.outcome.Model)
	r.about.FinishReason = cmp.Or(m.FinishReason, r.about.FinishReason)
	r.about.Retryable = r.about.Retryable || m.Retryable
}

// status takes a status of the task.
func (r *reader) status(s status) (ended bool, err error) {
	switch s.State {
	case stateCompleted:
		if err := r.conclude(s.Message); err != nil {
			return false, err
		}
		return true, r.finish()
	case stateFailed:
		return true, r.agent.Failed(s.Message.text(), r.about.Retryable)
	case stateRejected:
		return true, r.agent.Failed(strings.TrimSuffix("it has rejected the task: "+s.Message.text(), ": "), false)
	case stateCanceled:
		return true, r.agent.Failed("it has cancelled the task", true)
	case stateInputRequired, stateAuthRequired:
		if s.Message != nil && s.Message.ID != "" && s.Message.ID == r.answered {
			return false, nil
		}
		return true, r.ask(s.Message)
	default:
		return false, r.progress(s.Message)
	}
}

// conclude shows the message of a task that is complete, unless an artifact has the same text.
func (r *reader) conclude(m *message) error {
	if m == nil || r.said[m.ID] {
		return nil
	}
	text := m.text()
	for _, a := range r.artifacts {
		if strings.TrimSpace(string(a.text)) == strings.TrimSpace(text) {
			return nil
		}
	}
	return r.text(text, note{})
}

// add takes an artifact, or what is appended to it. A version that continues what was shown adds to it; another one is shown as a
// whole.
func (r *reader) add(a artifact, appends bool) error {
	if about(a.Metadata).Discarded && len(r.artifact(a.ID).text) > 0 {
		r.discarded = true
		return r.agent.Cut(errors.New("it discarded a part of its answer"))
	}
	one := r.artifact(a.ID)
	if !appends {
		one.at, one.seen = 0, 0
	}
	for _, p := range a.Parts {
		if p.Text == nil {
			if err := r.file(a, one, p); err != nil {
				return err
			}
			continue
		}
		if err := r.text(one.extend(*p.Text), note{Task: r.place.Task, Artifact: a.ID}); err != nil {
			return err
		}
	}
	return nil
}

// extend adds a text to the newest version of an artifact, and returns what was not shown.
func (s *shown) extend(text string) string {
	overlap := min(len(text), len(s.text)-s.at)
	if text[:overlap] != string(s.text[s.at:s.at+overlap]) {
		s.text = append(slices.Clone(s.text[:s.at]), text...)
		s.at = len(s.text)
		return string(s.text)
	}
	s.text = append(s.text, text[overlap:]...)
	s.at += len(text)
	return text[overlap:]
}

// text emits a text of an artifact, or of the agent itself.
func (r *reader) text(text string, n note) error {
	if text == "" {
		return nil
	}
	if r.open != nil && *r.open != n {
		if err := r.endText(); err != nil {
			return err
		}
	}
	r.open = &n
	r.news++
	return r.emit(backend.TextDelta(text))
}

// endText completes the text that was emitted last.
func (r *reader) endText() error {
	n := r.open
	r.open = nil
	if n == nil {
		return nil
	}
	return r.emit(backend.TextSignature(n.String()))
}

// finish ends the turn.
func (r *reader) finish() error {
	r.outcome.Finish = event.FinishStop
	if r.asked > 0 {
		r.outcome.Finish = event.FinishToolCalls
	} else if slices.Contains([]event.FinishReason{
		event.FinishLength, event.FinishMaxTurns, event.FinishBudget, event.FinishContentFilter, event.FinishRefusal,
	}, r.about.FinishReason) {
		r.outcome.Finish = r.about.FinishReason
	}
	return r.endText()
}
