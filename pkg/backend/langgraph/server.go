package langgraph

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/sse"
	jsonv2 "github.com/go-json-experiment/json"
)

// server is the API of an Agent Server.
type server struct{ agent upstream.Agent }

// maxState limits an answer in JSON, in bytes: the state of a thread has the whole conversation.
const maxState = 64 << 20

// call sends a request and decodes the answer into out, unless that is nil.
func (s server) call(ctx context.Context, method, path string, in, out any) error {
	r := upstream.Request{Method: method, Path: path}
	if in != nil {
		body, err := jsonv2.Marshal(in)
		if err != nil {
			return err
		}
		r.Body = body
	}
	res, err := s.agent.Send(ctx, r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // what matters of it was read
	if out == nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, maxState+1))
	if err != nil {
		return s.agent.Cut(err)
	}
	if len(text) > maxState {
		return s.agent.Broke("an answer is larger than %d bytes", maxState)
	}
	if err := jsonv2.Unmarshal(text, out); err != nil {
		return s.agent.API().Malformed(err)
	}
	return nil
}

// maxAssistants limits the assistants that an error names.
const maxAssistants = 100

// assistants lists the names of the server's assistants: their ids, and those of their graphs.
func (s server) assistants(ctx context.Context) (names []string, err error) {
	var found []struct {
		AssistantID string `json:"assistant_id"`
		GraphID     string `json:"graph_id"`
	}
	if err := s.call(ctx, http.MethodPost, "assistants/search", map[string]int{"limit": maxAssistants}, &found); err != nil {
		return nil, err
	}
	for _, a := range found {
		names = append(names, a.GraphID, a.AssistantID)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// check returns an error if the assistant is not one of names. A list that is full may lack it.
func (b *Backend) check(names []string) error {
	if slices.Contains(names, b.assistant) || len(names) >= maxAssistants {
		return nil
	}
	return apierr.New(apierr.AgentError, "%s has no assistant %.80q; it has %.400s", b.agent.API().Name, b.assistant, strings.Join(names, ", "))
}

// createThread creates a thread, unless it exists.
func (s server) createThread(ctx context.Context, thread string) error {
	return s.call(ctx, http.MethodPost, "threads", map[string]string{"thread_id": thread, "if_exists": "do_nothing"}, nil)
}

// thread returns an error if a thread does not exist: a [backend.ErrUnavailable].
func (s server) thread(ctx context.Context, thread string) error {
	return s.call(ctx, http.MethodGet, "threads/"+thread, nil, nil)
}

// status is a run as the server knows it.
type status struct {
	RunID    string          `json:"run_id"`
	Status   string          `json:"status"` // pending, running, error, success, timeout, interrupted
	Metadata json.RawMessage `json:"metadata"`
}

func (s status) mark() string {
	var m metadata
	if jsonv2.Unmarshal(s.Metadata, &m) != nil {
		return "" // the metadata of another client
	}
	return m.Mark
}

// ended reports whether the run has ended.
func (s status) ended() bool { return s.Status != "pending" && s.Status != "running" }

// runs lists the newest runs of a thread.
func (s server) runs(ctx context.Context, thread string) (all []status, err error) {
	return all, s.call(ctx, http.MethodGet, "threads/"+thread+"/runs", nil, &all)
}

func (s server) status(ctx context.Context, thread, run string) (one status, err error) {
	return one, s.call(ctx, http.MethodGet, "threads/"+thread+"/runs/"+run, nil, &one)
}

func (s server) cancel(ctx context.Context, thread, run string) error {
	return s.call(ctx, http.MethodPost, "threads/"+thread+"/runs/"+run+"/cancel", nil, nil)
}

// state is the state of a thread.
type state struct {
	Values   json.RawMessage `json:"values"`
	Metadata struct {
		RunID string `json:"run_id"`
	} `json:"metadata"`
	Tasks []struct {
		Error      any         `json:"error"`
		Interrupts []interrupt `json:"interrupts"`
	} `json:"tasks"`
}

func (s server) state(ctx context.Context, thread string) (one state, err error) {
	return one, s.call(ctx, http.MethodGet, "threads/"+thread+"/state", nil, &one)
}

// start starts a run and returns its id, "" if the server does not say it, and its stream.
func (s server) start(ctx context.Context, thread string, body []byte) (run string, stream *upstream.Ahead, err error) {
	return s.open(ctx, upstream.Request{Path: "threads/" + thread + "/runs/stream", Body: body})
}

// join returns the stream of a run after an event.
func (s server) join(ctx context.Context, thread, run, after string) (*upstream.Ahead, error) {
	_, stream, err := s.open(ctx, upstream.Request{
		Method: http.MethodGet, Path: "threads/" + thread + "/runs/" + run + "/stream", Header: http.Header{"Last-Event-Id": {after}},
	})
	return stream, err
}

func (s server) open(ctx context.Context, r upstream.Request) (run string, stream *upstream.Ahead, err error) {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Accept", sse.ContentType)
	res, err := s.agent.Send(ctx, r)
	if err != nil {
		return "", nil, err
	}
	opened, err := s.agent.Stream(res)
	if err != nil {
		_ = res.Body.Close() // its content does not matter
		return "", nil, err
	}
	location := strings.Split(res.Header.Get("Content-Location"), "/")
	if i := slices.Index(location, "runs"); i >= 0 && i+1 < len(location) && id.Valid(location[i+1]) {
		run = location[i+1]
	}
	return run, opened.Ahead(), nil
}
