package langgraph

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
)

// threadState is the state of a thread at the end of a run, or now.
type threadState struct {
	Values           wire.Values      `json:"values"`
	Next             []string         `json:"next"`
	Checkpoint       *wire.Checkpoint `json:"checkpoint"`
	ParentCheckpoint *wire.Checkpoint `json:"parent_checkpoint"`
	Metadata         stateMetadata    `json:"metadata"`
	CreatedAt        *time.Time       `json:"created_at"`
	Tasks            []task           `json:"tasks"`
}

type stateMetadata struct {
	Source   string `json:"source"`
	Step     int    `json:"step"`
	RunID    string `json:"run_id,omitempty"`
	ThreadID string `json:"thread_id"`
	GraphID  string `json:"graph_id,omitempty"`
}

// task is what a state waits for, or why it failed.
type task struct {
	ID         string           `json:"id"`
	Name       string           `json:"name"`
	Path       []string         `json:"path"`
	Error      *string          `json:"error"`
	Interrupts []wire.Interrupt `json:"interrupts"`
	Checkpoint *wire.Checkpoint `json:"checkpoint"`
	State      *threadState     `json:"state"`
}

// taskID is the id of the one task that an agent has.
const taskID = "agent"

// stateEvents are the events that change the state of a thread.
func stateEvents() []event.Name {
	return []event.Name{
		event.NameInput, event.NameMetadata, event.NameText, event.NameThinking, event.NameToolCall, event.NameToolResult,
		event.NameFinalAnswer, event.NamePlan, event.NameUsage, event.NameDone, event.NameError, event.NameAborted,
	}
}

// states returns the states of a thread, the oldest first, up to that of a run ("" = all).
func (s *Server) states(ctx context.Context, thread historyapi.ThreadRef, until string) ([]wire.State, error) {
	var replay wire.Replay
	reached := false
	for e, err := range s.ThreadEvents(ctx, thread, stateEvents()) {
		if err != nil {
			return nil, err
		}
		if reached && e.RequestID != until {
			break
		}
		reached = reached || until != "" && e.RequestID == until
		replay.Add(e)
	}
	return replay.States(), nil
}

// earlier returns a function that reads the state of a thread before a run.
func (s *Server) earlier(x *protocol.Exchange, threadID, requestID string) func() (wire.Values, error) {
	thread, parent := ref(x, threadID), context.WithoutCancel(x.Context()) // the stream bounds it
	return func() (wire.Values, error) {
		ctx, cancel := context.WithTimeout(parent, protocol.Timeout)
		defer cancel()
		var replay wire.Replay
		for e, err := range s.ThreadEvents(ctx, thread, stateEvents()) {
			if err != nil {
				return wire.Values{}, err
			}
			if e.RequestID == requestID {
				break
			}
			replay.Add(e)
		}
		states := replay.States()
		if len(states) == 0 {
			return wire.Values{}, nil
		}
		return states[len(states)-1].Values, nil
	}
}

// openActions returns the actions that a thread waits for.
func (s *Server) openActions(ctx context.Context, p auth.Principal, threadID string) ([]historyapi.Action, error) {
	if _, err := s.Guard.Thread(ctx, p, threadID); err != nil {
		return nil, err
	}
	page, err := s.History.Actions(ctx, historyapi.ActionsQuery{Tenant: p.Tenant, Owner: p.Subject, ThreadID: threadID})
	if apierr.CodeOf(err) == apierr.ThreadNotFound {
		return nil, nil
	}
	now := s.Bus.Now()
	return slices.DeleteFunc(page.Actions, func(a historyapi.Action) bool {
		return !a.ExpiresAt.IsZero() && !now.Before(a.ExpiresAt)
	}), err
}

func (s *Server) openInterrupts(ctx context.Context, p auth.Principal, threadID string) ([]wire.Interrupt, error) {
	open, err := s.openActions(ctx, p, threadID)
	var all []wire.Interrupt
	for _, a := range open {
		all = append(all, wire.NewInterrupt(a.ActionID, a.Kind, a.Payload))
	}
	return all, err
}

// history returns the states of a thread in LangGraph's format, the newest first.
func (s *Server) history(x *protocol.Exchange, threadID string) ([]threadState, error) {
	ctx := x.Context()
	_, err := s.Guard.Thread(ctx, x.Principal(), threadID)
	x.Audit(threadID, "", err)
	if err != nil {
		return nil, err
	}
	states, err := s.states(ctx, ref(x, threadID), "")
	if err != nil {
		return nil, err
	}
	open, err := s.openInterrupts(ctx, x.Principal(), threadID)
	if err != nil {
		return nil, err
	}
	all := make([]threadState, 0, len(states))
	var parent *wire.Checkpoint
	for i, one := range states {
		at := &wire.Checkpoint{ThreadID: threadID, CheckpointID: one.RunID}
		converted := newState(one, i, at, parent)
		if i == len(states)-1 && len(open) > 0 {
			converted.wait(open)
		}
		all, parent = append(all, converted), at
	}
	slices.Reverse(all)
	return all, nil
}

func newState(s wire.State, step int, at, parent *wire.Checkpoint) threadState {
	one := threadState{
		Values: s.Values, Next: []string{}, Checkpoint: at, ParentCheckpoint: parent, CreatedAt: &s.At, Tasks: []task{},
		Metadata: stateMetadata{Source: "loop", Step: step, RunID: s.RunID, ThreadID: at.ThreadID, GraphID: s.Agent},
	}
	if failed, ok := wire.EndError(s.End); ok {
		text := failed.Error + ": " + failed.Message
		one.Tasks = []task{{ID: taskID, Name: taskID, Path: []string{}, Error: &text, Interrupts: []wire.Interrupt{}}}
	}
	return one
}

// wait adds the interrupts that the thread waits for.
func (t *threadState) wait(open []wire.Interrupt) {
	t.Next = []string{taskID}
	t.Tasks = []task{{ID: taskID, Name: taskID, Path: []string{}, Interrupts: open}}
}

func (s *Server) getState(x *protocol.Exchange) error {
	all, err := s.history(x, x.Param("threadId"))
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return x.Reply(http.StatusOK, threadState{
			Values: wire.Values{Messages: []wire.Message{}}, Next: []string{}, Tasks: []task{},
			Metadata: stateMetadata{Source: "input", Step: -1, ThreadID: x.Param("threadId")},
		})
	}
	return x.Reply(http.StatusOK, all[0])
}

// getHistory lists the states of a thread, the newest first.
func (s *Server) getHistory(x *protocol.Exchange) error {
	var q struct {
		Limit      int              `json:"limit"`
		Checkpoint *wire.Checkpoint `json:"checkpoint"`
	}
	if err := read(x, &q); err != nil {
		return err
	}
	all, err := s.history(x, x.Param("threadId"))
	if err != nil {
		return err
	}
	if q.Checkpoint != nil && q.Checkpoint.CheckpointNS != "" {
		all = nil // agents that were called have no states of their own
	}
	return x.Reply(http.StatusOK, page(all, 0, cmp.Or(max(q.Limit, 0), defaultFound)))
}
