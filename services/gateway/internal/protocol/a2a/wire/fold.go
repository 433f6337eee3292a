package wire

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// maxKept bounds what a task keeps of its output, in bytes: the published client reads no larger event.
const maxKept = 3 << 20

// Fold is the state of a task, which the events of its requests change. The events of each request must come in order and from
// the first one; deltas may be missing.
type Fold struct {
	taskID    string
	contextID string
	requestID string   // of the newest event
	requests  []string // of the task
	status    Status
	metadata  map[string]any // of the task, in addition to its requests
	open      map[string]*block
	waiting   []event.Continuation
	messages  []string // ids of the user's messages
	said      int      // messages of progress in the newest request

	keeps     bool // what follows
	artifacts []*kept
	history   []Message
	size      int // of both, in bytes
}

// kept is an artifact with its text until now.
type kept struct {
	Artifact
	text strings.Builder
}

// NewFold returns the state of a task before its first event. taskID is the id of its first request; "" = the first event has
// it.
func NewFold(taskID, contextID string) *Fold {
	return &Fold{
		taskID: taskID, contextID: contextID, keeps: true, open: map[string]*block{}, metadata: map[string]any{},
		status: Status{State: StateSubmitted},
	}
}

// State returns the state of the task.
func (f *Fold) State() State { return f.status.State }

// ContextID returns the thread of the task.
func (f *Fold) ContextID() string { return f.contextID }

// RequestID returns the newest request of the task.
func (f *Fold) RequestID() string { return f.requestID }

// Requests returns the requests of the task whose events were added, the oldest first.
func (f *Fold) Requests() []string { return f.requests }

// Waiting returns the actions that the task waits for.
func (f *Fold) Waiting() []event.Continuation {
	if f.status.State != StateInputRequired {
		return nil
	}
	return f.waiting
}

// HasMessage reports whether the user has sent a message of this id to the task.
func (f *Fold) HasMessage(messageID string) bool {
	return slices.Contains(f.messages, messageID)
}

// Task returns the task as it is now. Output that was discarded is left out.
func (f *Fold) Task() Task {
	t := Task{ID: f.taskID, ContextID: f.contextID, Status: f.status, History: f.history, Metadata: f.taskMetadata()}
	for _, one := range f.artifacts {
		a := one.Artifact
		if a.Parts == nil {
			a.Parts = []Part{textPart(one.text.String())}
		}
		t.Artifacts = append(t.Artifacts, a)
	}
	return t
}

func (f *Fold) taskMetadata() json.RawMessage {
	members := map[string]any{"requestIds": f.requests}
	maps.Copy(members, f.metadata)
	return own(members)
}

// Forget drops the output of the task, for a stream that has written it.
func (f *Fold) Forget() { f.keeps, f.artifacts, f.history = false, nil, nil }

// CheckSize returns an error if the output is too large for one response.
func (f *Fold) CheckSize() error {
	if f.size > maxKept {
		return apierr.New(apierr.MessageTooLarge, "the task is too large for one response; it continues: read the events of request %s", f.requestID)
	}
	return nil
}

// Begin changes the state for a request that was accepted. note is its metadata.
func (f *Fold) Begin(note json.RawMessage, at time.Time) {
	f.submit(at)
	if messageID := readNote(note).MessageID; messageID != "" {
		f.messages = append(f.messages, messageID)
	}
}

func (f *Fold) submit(at time.Time) {
	f.setStatus(StateSubmitted, at, nil)
	f.waiting = nil
}

// Submit is Begin for the message that has made the request, which the history then has.
func (f *Fold) Submit(m InMessage, at time.Time) {
	f.submit(at)
	f.history = append(f.history, Message{
		MessageID: m.MessageID, ContextID: f.contextID, TaskID: f.taskID, Role: RoleUser, Parts: m.Parts, Metadata: m.Metadata,
	})
}

// Add changes the state by an event, and returns what streams of the task show.
func (f *Fold) Add(e event.Event) []Update {
	if e.Body.Name().IsInternal() {
		return nil
	}
	f.identify(e)
	switch b := e.Body.(type) {
	case event.Input:
		f.input(e, b)
	case event.Metadata:
		f.metadata = map[string]any{"agent": b.AgentID}
		return f.change(StateWorking, e.Time, nil, nil)
	case event.Text:
		return f.text(b.Block, b.Delta, b.Text, block{})
	case event.FinalAnswer:
		return f.text(b.Block, b.Delta, b.Content, block{name: b.Title, about: finalAnswer(b)})
	case event.ToolResult:
		return append(f.progress(e.Time, e.Body, ""), f.files(b)...)
	case event.Continuation:
		f.waiting = append(f.waiting, b)
	case event.Done:
		return f.done(e.Time, b)
	case event.Error:
		about := map[string]any{"code": string(b.Code), "retryable": b.Retryable}
		return f.change(StateFailed, e.Time, f.say("error", textPart(cmp.Or(b.Message, string(b.Code)))), f.ended(about, b.Usage))
	case event.Aborted:
		return f.change(StateCanceled, e.Time, f.say("aborted", textPart(cmp.Or(b.Reason, "the task was canceled"))), f.ended(nil, b.Usage))
	default:
		return f.progress(e.Time, e.Body, "")
	}
	return nil
}

// identify learns the ids of the task and the request from an event.
func (f *Fold) identify(e event.Event) {
	f.taskID = cmp.Or(f.taskID, e.RequestID)
	if f.requestID != e.RequestID {
		f.requestID, f.said = e.RequestID, 0
		f.requests = append(f.requests, e.RequestID)
	}
	switch b := e.Body.(type) {
	case event.Input:
		f.contextID = cmp.Or(f.contextID, b.ThreadID)
	case event.Metadata:
		f.contextID = cmp.Or(f.contextID, b.ThreadID)
	}
	if f.status.Timestamp == "" {
		f.status.Timestamp = timestamp(e.Time)
	}
}

// input keeps what the user has sent.
func (f *Fold) input(e event.Event, b event.Input) {
	if b.SteerID == "" {
		f.submit(e.Time)
	}
	for _, m := range f.messagesOf(b) {
		f.messages = append(f.messages, m.MessageID)
		if f.keeps {
			f.history = append(f.history, m)
			f.size += sizeOf(m.Parts)
		}
	}
}

// block is a block of text that has begun and not ended.
type block struct {
	name  string
	about json.RawMessage
	sent  bool // a part of it
}

// text projects a block of the answer: each block is an artifact. Its start is not shown, since an artifact has a part.
func (f *Fold) text(b event.Block, delta, whole string, about block) []Update {
	id := cmp.Or(b.MessageID, f.requestID) + "-" + b.BlockID
	opened, found := f.open[id]
	if !found {
		opened = &about
		f.open[id] = opened
	}
	a := Artifact{ID: id, Name: opened.name, Metadata: opened.about}
	sent := opened.sent
	switch b.Stage {
	case event.StageStop:
	case event.StageStart:
		return nil
	case event.StageDelta:
		opened.sent = true
		f.keep(a, delta, true)
		a.Parts = []Part{textPart(delta)}
		return f.artifact(a, sent, false)
	}
	delete(f.open, id)
	switch {
	case b.Discarded:
		f.drop(id)
		a.Metadata = own(map[string]any{"discarded": true, "reason": b.Reason})
		whole = ""
	case sent: // the deltas were the whole text
		f.keep(a, whole, false)
		a.Parts = []Part{textPart("")}
		return f.artifact(a, true, true)
	default:
		f.keep(a, whole, false)
	}
	if !sent && whole == "" {
		return nil
	}
	a.Parts = []Part{textPart(whole)}
	return f.artifact(a, false, true)
}

// files projects the images and files that a tool gave.
func (f *Fold) files(b event.ToolResult) []Update {
	if b.Stage != event.StageStop || b.Discarded || len(b.Media) == 0 {
		return nil
	}
	a := Artifact{ID: b.ToolCallID + "-files", Name: b.Tool, Metadata: own(map[string]any{"toolCallId": b.ToolCallID})}
	for _, p := range b.Media {
		a.Parts = append(a.Parts, partOf(p, f.contextID))
	}
	if f.keeps {
		f.artifacts = append(f.artifacts, &kept{Artifact: a})
		f.size += sizeOf(a.Parts)
	}
	return f.artifact(a, false, true)
}

// keep adds text to an artifact, or replaces its text.
func (f *Fold) keep(a Artifact, text string, more bool) {
	if !f.keeps {
		return
	}
	i := f.find(a.ID)
	if i < 0 {
		i = len(f.artifacts)
		f.artifacts = append(f.artifacts, &kept{Artifact: a})
	}
	one := f.artifacts[i]
	if !more {
		f.size -= one.text.Len()
		one.text.Reset()
	}
	f.size += len(text)
	one.text.WriteString(text)
}

// drop removes an artifact that does not count.
func (f *Fold) drop(id string) {
	if i := f.find(id); i >= 0 {
		f.size -= f.artifacts[i].text.Len()
		f.artifacts = slices.Delete(f.artifacts, i, i+1)
	}
}

func (f *Fold) find(id string) int {
	return slices.IndexFunc(f.artifacts, func(one *kept) bool { return one.ID == id })
}

func (f *Fold) artifact(a Artifact, more, last bool) []Update {
	return []Update{{Artifact: &ArtifactUpdate{TaskID: f.taskID, ContextID: f.contextID, Artifact: a, Append: more, LastChunk: last}}}
}

// done projects the end of a request that went well.
func (f *Fold) done(at time.Time, b event.Done) []Update {
	about := f.ended(map[string]any{"finishReason": string(b.FinishReason)}, &b.Usage)
	switch b.FinishReason {
	case event.FinishActionRequired:
		asked := f.say("question", f.questions()...)
		updates := f.change(StateInputRequired, at, asked, about)
		if f.keeps {
			f.history = append(f.history, *asked)
		}
		return updates
	case event.FinishRefusal:
		return f.change(StateRejected, at, nil, about)
	default:
		return f.change(StateCompleted, at, nil, about)
	}
}

// ended returns metadata of the end of a request, which is also kept for the task.
func (f *Fold) ended(about map[string]any, usage *event.Usage) map[string]any {
	if about == nil {
		about = map[string]any{}
	}
	if usage != nil {
		about["usage"] = usage
	}
	maps.Copy(f.metadata, about)
	return about
}

// setStatus changes the status.
func (f *Fold) setStatus(s State, at time.Time, said *Message) {
	f.status = Status{State: s, Message: said, Timestamp: timestamp(at)}
}

// change changes the status, and returns the update.
func (f *Fold) change(s State, at time.Time, said *Message, about map[string]any) []Update {
	f.setStatus(s, at, said)
	return f.report(f.status, about)
}

func (f *Fold) report(s Status, about map[string]any) []Update {
	u := StatusUpdate{TaskID: f.taskID, ContextID: f.contextID, Status: s}
	if len(about) > 0 {
		u.Metadata = own(about)
	}
	return []Update{{Status: &u}}
}

// say returns a message of the agent. what makes its id unique in the request.
func (f *Fold) say(what string, parts ...Part) *Message {
	return &Message{MessageID: f.requestID + "-" + what, ContextID: f.contextID, TaskID: f.taskID, Role: RoleAgent, Parts: parts}
}

func sizeOf(parts []Part) int {
	size := 0
	for _, p := range parts {
		size += len(p.Raw) + len(p.Data) + len(p.URL)
		if p.Text != nil {
			size += len(*p.Text)
		}
	}
	return size
}
