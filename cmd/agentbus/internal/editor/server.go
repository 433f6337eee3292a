// Package editor is `agentbus acp`: it serves an agent of a gateway to an editor, by the Agent Client Protocol over standard
// input and output. A session is a thread, and a prompt is a request, or several if the user is asked for approvals: the
// thread lives on when the editor is closed, and is loaded again from the gateway.
//
// Read server.go for the methods, turn.go for a prompt, update.go for what the editor sees of events.
package editor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/id"
)

// Options are the settings of a server.
type Options struct {
	Client  *client.Client
	Agent   string
	Models  []string // that a session may select; empty = only the agent's own
	Model   string   // the agent's own
	Version string   // of agentbus
	Folder  string   // where a listed session has been started: threads have no folder
}

// Server serves one editor.
type Server struct {
	Options
	conn       *acp.Conn
	background chan func(context.Context) // work that no request of the editor waits for

	mu       sync.Mutex
	editor   acp.ClientCapabilities
	sessions map[string]*session
}

// Serve serves an editor until in ends or ctx is done.
func Serve(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	s := &Server{Options: o, background: make(chan func(context.Context)), sessions: map[string]*session{}}
	s.conn = acp.NewConn(in, out, s)
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { s.runBackground(ctx) })
	defer work.Wait()
	defer cancel()
	return s.conn.Serve(ctx)
}

func (s *Server) runBackground(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for {
		select {
		case job := <-s.background:
			work.Go(func() { job(ctx) })
		case <-ctx.Done():
			return
		}
	}
}

// answer answers a request of the editor.
type answer func(context.Context) (any, error)

// Request implements [acp.Handler].
func (s *Server) Request(method string, params json.RawMessage) func(context.Context) (any, error) {
	switch method {
	case acp.MethodInitialize:
		return with(params, s.initialize)
	case acp.MethodAuthenticate:
		return with(params, s.authenticate)
	case acp.MethodNew:
		return with(params, s.newSession)
	case acp.MethodLoad:
		return with(params, s.load)
	case acp.MethodResume:
		return with(params, s.resume)
	case acp.MethodList:
		return with(params, s.list)
	case acp.MethodClose:
		return with(params, s.closeSession)
	case acp.MethodDelete:
		return with(params, s.deleteSession)
	case acp.MethodSetOption:
		return with(params, s.setOption)
	case acp.MethodPrompt:
		return s.prompt(params)
	default:
		return refusal(acp.Errorf(acp.CodeMethodNotFound, "this agent has no method %.100q", method))
	}
}

// with decodes the parameters of a request.
func with[P any](params json.RawMessage, serve func(context.Context, P) (any, error)) answer {
	p, err := acp.Decode[P](params)
	if err != nil {
		return refusal(err)
	}
	return func(ctx context.Context) (any, error) { return serve(ctx, p) }
}

func refusal(err error) answer { return func(context.Context) (any, error) { return nil, err } }

// Notification implements [acp.Handler].
func (s *Server) Notification(method string, params json.RawMessage) {
	if method != acp.MethodCancel {
		return
	}
	p, err := acp.Decode[acp.CancelNotification](params)
	if err != nil {
		return // a notification has no response
	}
	if found, err := s.find(p.SessionID); err == nil {
		found.cancel()
	}
}

func (s *Server) initialize(_ context.Context, p acp.InitializeRequest) (any, error) {
	s.mu.Lock()
	s.editor = p.ClientCapabilities
	s.mu.Unlock()
	return acp.InitializeResponse{
		ProtocolVersion: acp.Version,
		AgentCapabilities: acp.AgentCapabilities{
			LoadSession:        true,
			PromptCapabilities: acp.PromptCapabilities{Image: true, EmbeddedContext: true},
			SessionCapabilities: acp.SessionCapabilities{
				List: &acp.Flag{}, Delete: &acp.Flag{}, Resume: &acp.Flag{}, Close: &acp.Flag{},
			},
		},
		AuthMethods: []acp.AuthMethod{{
			ID: methodKey, Name: "API key",
			Description: "Set AGENTBUS_KEY in the environment of agentbus acp to an API key of the gateway.",
		}},
		AgentInfo: &acp.Implementation{Name: "agentbus", Title: "agentbus: " + s.Agent, Version: s.Version},
	}, nil
}

func (s *Server) capabilities() acp.ClientCapabilities {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.editor
}

// methodKey is the one way to authenticate: the key that the command was started with.
const methodKey = "api-key"

// authenticate checks the key that the command was started with.
func (s *Server) authenticate(ctx context.Context, p acp.AuthenticateRequest) (any, error) {
	if p.MethodID != methodKey {
		return nil, acp.Errorf(acp.CodeInvalidParams, "there is no way to authenticate that is called %.40q; use %q", p.MethodID, methodKey)
	}
	if _, err := s.Client.Agents(ctx); err != nil {
		return nil, failure(err)
	}
	return struct{}{}, nil
}

// failure is an error of the gateway as the editor reads it.
func failure(err error) error {
	f, ok := errors.AsType[*apierr.Error](err)
	if !ok {
		return acp.Errorf(acp.CodeInternal, "%v", err)
	}
	e := acp.Errorf(acp.CodeInternal, "%s", f.Message)
	e.Data = map[string]any{"code": f.Code, "retryable": f.Retryable}
	switch f.Code {
	case apierr.AuthFailed:
		e.Code, e.Message = acp.CodeAuthRequired, f.Message+"; set AGENTBUS_KEY in the environment of agentbus acp"
	case apierr.ThreadNotFound:
		e.Code = acp.CodeNotFound
	default: // an internal error, whose data has the code
	}
	return e
}

func (s *Server) find(sessionID string) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sessions[sessionID]
	if found == nil {
		return nil, acp.Errorf(acp.CodeNotFound, "session %.64q is not open; create or load it first", sessionID)
	}
	return found, nil
}

// open adds a session, or returns the one that is open already.
func (s *Server) open(threadID, folder string) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sessions[threadID]; found != nil {
		return found
	}
	added := &session{server: s, id: threadID, folder: folder, model: s.Model}
	s.sessions[threadID] = added
	return added
}

func (s *Server) newSession(ctx context.Context, p acp.NewRequest) (any, error) {
	if _, err := s.Client.Agents(ctx); err != nil { // reports a missing key before the user writes a prompt
		return nil, failure(err)
	}
	created := s.open(id.New(id.Thread), p.CWD)
	created.isNew = true
	created.refuseServers(len(p.MCPServers))
	return acp.SessionResponse{SessionID: created.id, ConfigOptions: created.options()}, nil
}
