package editor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	jsonv2 "github.com/go-json-experiment/json"
)

// session is a thread that the editor has open.
type session struct {
	server *Server
	id     string
	folder string // that the editor works in

	mu        sync.Mutex
	isNew     bool // the thread has no request yet
	model     string
	remark    string               // for the editor, with the next prompt
	questions []event.Continuation // open actions that the next prompt answers
	open      []event.Continuation // open actions of a session that was loaded
	turn      *turn                // the newest
}

// refuseServers remarks that the MCP servers of the editor are not used: the tools of an agent are those of the gateway.
func (s *session) refuseServers(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remark = fmt.Sprintf("The %d MCP server(s) of the editor are not used: the agent runs on the gateway, with the tools of its configuration.", n)
}

// optionModel is the id of the setting that selects a model.
const optionModel = "model"

func (s *session) options() []acp.ConfigOption {
	s.mu.Lock()
	defer s.mu.Unlock()
	models := slices.DeleteFunc(slices.Clone(s.server.Models), func(name string) bool { return name == "*" })
	if len(models) == 0 || s.server.Model == "" {
		return nil
	}
	if !slices.Contains(models, s.server.Model) {
		models = append([]string{s.server.Model}, models...)
	}
	option := acp.ConfigOption{ID: optionModel, Name: "Model", Category: "model", Type: "select", CurrentValue: s.model}
	for _, name := range models {
		option.Options = append(option.Options, acp.ConfigValue{Value: name, Name: name})
	}
	return []acp.ConfigOption{option}
}

func (s *Server) setOption(_ context.Context, p acp.SetOptionRequest) (any, error) {
	found, err := s.find(p.SessionID)
	if err != nil {
		return nil, err
	}
	var value string
	_ = jsonv2.Unmarshal(p.Value, &value) // any other value is not in the list
	options := found.options()
	if len(options) == 0 || p.ConfigID != optionModel ||
		!slices.ContainsFunc(options[0].Options, func(v acp.ConfigValue) bool { return v.Value == value }) {
		return nil, acp.Errorf(acp.CodeInvalidParams, "the session has no setting %.40q with the value %.80s", p.ConfigID, p.Value)
	}
	found.mu.Lock()
	found.model = value
	found.mu.Unlock()
	return acp.SetOptionResponse{ConfigOptions: found.options()}, nil
}

// load shows the editor all of a thread, and what still runs.
func (s *Server) load(ctx context.Context, p acp.SessionRequest) (any, error) {
	return s.reopen(ctx, p, true)
}

// resume opens a thread whose messages the editor has.
func (s *Server) resume(ctx context.Context, p acp.SessionRequest) (any, error) {
	return s.reopen(ctx, p, false)
}

func (s *Server) reopen(ctx context.Context, p acp.SessionRequest, show bool) (any, error) {
	thread, err := s.Client.Thread(ctx, p.SessionID)
	if err != nil {
		return nil, failure(err)
	}
	newest := historyapi.Request{}
	if thread.LastRequestID != "" {
		if newest, err = s.Client.Request(ctx, thread.LastRequestID); err != nil {
			return nil, failure(err)
		}
	}
	found := s.open(p.SessionID, p.CWD)
	found.refuseServers(len(p.MCPServers))
	running := newest.Status == historyapi.StatusQueued || newest.Status == historyapi.StatusRunning
	if err := found.replay(ctx, newest.RequestID, running, show); err != nil {
		return nil, failure(err)
	}
	if running {
		t := found.begin()
		select {
		case s.background <- func(ctx context.Context) { t.attach(ctx, newest.RequestID) }:
		case <-ctx.Done():
			t.end()
			return nil, context.Cause(ctx)
		}
	}
	return acp.SessionResponse{ConfigOptions: found.options()}, nil
}

// replay shows the finished requests of the thread, and keeps the open actions of the newest one.
func (s *session) replay(ctx context.Context, newest string, running, show bool) error {
	past := updates{session: s, whole: true}
	var open []event.Continuation
	for e, err := range s.server.Client.Events(ctx, s.id, client.EventsQuery{Types: replayed()}) {
		if err != nil {
			return err
		}
		if e.RequestID == newest && running {
			continue // the rest of it comes live
		}
		if action, ok := e.Body.(event.Continuation); ok && e.RequestID == newest {
			open = append(open, action)
		}
		if show {
			if err := past.show(e.Body); err != nil {
				return err
			}
		}
	}
	return s.restore(open)
}

// replayed are the events that a loaded session shows.
func replayed() []event.Name {
	return []event.Name{
		event.NameInput, event.NameText, event.NameThinking, event.NameToolCall, event.NameToolResult, event.NamePlan,
		event.NameFinalAnswer, event.NameContinuation, event.NameDone, event.NameError, event.NameAborted,
	}
}

// list lists the threads of the caller. A thread has no folder, so every one is listed for each folder.
func (s *Server) list(ctx context.Context, p acp.ListRequest) (any, error) {
	page, err := s.Client.Threads(ctx, client.Page{Cursor: p.Cursor})
	if err != nil {
		return nil, failure(err)
	}
	folder := p.CWD
	if folder == "" {
		folder = s.Folder
	}
	response := acp.ListResponse{NextCursor: page.NextCursor, Sessions: []acp.SessionInfo{}}
	for _, t := range page.Threads {
		if t.AgentID == s.Agent {
			response.Sessions = append(response.Sessions, acp.SessionInfo{
				SessionID: t.ThreadID, CWD: folder, Title: t.Title, UpdatedAt: t.UpdatedAt,
			})
		}
	}
	return response, nil
}

func (s *Server) closeSession(ctx context.Context, p acp.SessionRequest) (any, error) {
	found, err := s.find(p.SessionID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.sessions, p.SessionID)
	s.mu.Unlock()
	return struct{}{}, found.stop(ctx)
}

// deleteSession deletes the thread. It is not an error to delete a thread twice.
func (s *Server) deleteSession(ctx context.Context, p acp.SessionRequest) (any, error) {
	if found, err := s.find(p.SessionID); err == nil {
		if err := found.stop(ctx); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	delete(s.sessions, p.SessionID)
	s.mu.Unlock()
	if err := s.Client.DeleteThread(ctx, p.SessionID); err != nil && apierr.CodeOf(err) != apierr.ThreadNotFound {
		return nil, failure(err)
	}
	return struct{}{}, nil
}

// begin starts a turn, and cancels the one before it: editors send a prompt without waiting for the end of a turn that the
// user has interrupted.
func (s *session) begin() *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &turn{session: s, before: s.turn, cancelled: make(chan struct{}), ended: make(chan struct{})}
	if s.turn != nil {
		s.turn.cancel()
	}
	s.turn = t
	return t
}

// cancel cancels the turn that runs.
func (s *session) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		s.turn.cancel()
	}
}

// stop cancels the turn that runs and waits for its end.
func (s *session) stop(ctx context.Context) error {
	s.cancel()
	s.mu.Lock()
	t := s.turn
	s.mu.Unlock()
	if t == nil {
		return nil
	}
	return t.wait(ctx)
}

// take returns what the next request of the session needs, and forgets it.
func (s *session) take() (questions, open []event.Continuation, remark string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	questions, open, remark = s.questions, s.open, s.remark
	s.questions, s.open, s.remark = nil, nil, ""
	return questions, open, remark
}

// update sends an update to the editor.
func (s *session) update(u acp.Update) error {
	return s.server.conn.Notify(acp.MethodUpdate, acp.UpdateNotification{SessionID: s.id, Update: u})
}

// say sends a text that the agent has not written: as a notice, or as a thought to an editor without notices.
func (s *session) say(severity, text string) error {
	if s.server.capabilities().Session.Notices != nil {
		return s.update(acp.Update{
			SessionUpdate: acp.UpdateNotice, Severity: severity, ToolCall: acp.ToolCall{Title: text},
		})
	}
	return s.chunk(acp.UpdateAgentThought, "", text+"\n")
}

// chunk sends a part of a message.
func (s *session) chunk(kind, messageID, text string) error {
	if text == "" {
		return nil
	}
	content, err := jsonv2.Marshal(acp.TextContent(text))
	if err != nil {
		return fmt.Errorf("encode a text: %w", err)
	}
	return s.update(acp.Update{SessionUpdate: kind, MessageID: messageID, ToolCall: acp.ToolCall{Content: json.RawMessage(content)}})
}
