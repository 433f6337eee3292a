package langgraph

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
	jsonv2 "github.com/go-json-experiment/json"
)

// Run is a request as a run.
type Run struct {
	RunID             string          `json:"run_id"`
	ThreadID          string          `json:"thread_id"`
	AssistantID       string          `json:"assistant_id"`
	CreatedAt         time.Time       `json:"created_at"`
	UpdatedAt         time.Time       `json:"updated_at"`
	Status            string          `json:"status"`
	Metadata          json.RawMessage `json:"metadata"`
	Kwargs            struct{}        `json:"kwargs"`
	MultitaskStrategy string          `json:"multitask_strategy"`
}

// The states of runs.
const (
	statusPending     = "pending"
	statusRunning     = "running"
	statusSuccess     = "success"
	statusError       = "error"
	statusInterrupted = "interrupted"
)

// find returns the request of the path, if the caller may see it and it is on the thread of the path.
func (s *Server) find(x *protocol.Exchange) (authz.Request, error) {
	if !id.Valid(x.Param("threadId")) {
		return authz.Request{}, apierr.New(apierr.RequestNotFound, "there is no thread %.80q", x.Param("threadId"))
	}
	r, err := s.Guard.Request(x.Context(), x.Principal(), x.Param("requestId"))
	if err == nil && r.ThreadID != x.Param("threadId") {
		return r, apierr.New(apierr.RequestNotFound, "the thread has no run %.64q", x.Param("requestId"))
	}
	return r, err
}

// run returns the state of a request.
func (s *Server) run(ctx context.Context, r authz.Request) (Run, error) {
	one := Run{
		RunID: r.RequestID, ThreadID: r.ThreadID, AssistantID: r.AgentID, CreatedAt: r.At, UpdatedAt: r.At,
		Metadata: wire.ReadStored(r.Note).Metadata, MultitaskStrategy: "enqueue", Status: statusPending,
	}
	if len(one.Metadata) == 0 {
		one.Metadata = json.RawMessage("{}")
	}
	terminal, begun, err := s.terminal(ctx, r)
	if err != nil {
		return one, err
	}
	if begun {
		one.Status = statusRunning
	}
	if len(terminal) == 0 {
		return one, nil
	}
	e, err := event.Decode(terminal)
	if err != nil {
		return one, err
	}
	one.UpdatedAt, one.Status = e.Time, runStatus(e.Body)
	return one, nil
}

func runStatus(end event.Body) string {
	switch b := end.(type) {
	case event.Error:
		return statusError
	case event.Aborted:
		return statusInterrupted
	case event.Done:
		if b.FinishReason == event.FinishActionRequired {
			return statusInterrupted
		}
	}
	return statusSuccess
}

// terminal returns the terminal event of a request; nil = it has not ended. begun reports whether a runner has taken it.
func (s *Server) terminal(ctx context.Context, r authz.Request) (text json.RawMessage, begun bool, err error) {
	if r.Archived {
		ended, err := s.History.Request(ctx, historyapi.RequestRef{Tenant: r.Tenant, RequestID: r.RequestID})
		return ended.Terminal, true, err
	}
	last, err := s.Bus.Last(ctx, r.Log())
	if errors.Is(err, bus.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, authz.Unavailable(err)
	}
	for line := range last.Each() {
		if line.Name.IsTerminal() {
			text = slices.Clone(line.JSON)
		}
	}
	return text, true, nil
}

func (s *Server) getRun(x *protocol.Exchange) error {
	r, err := s.find(x)
	if err != nil {
		return err
	}
	found, err := s.run(x.Context(), r)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, found)
}

// maxRuns is the most runs of a list.
const maxRuns = 100

// listRuns lists the runs of a thread, the newest first. Runs of which the bus has no record any more are not listed.
func (s *Server) listRuns(x *protocol.Exchange) error {
	t, err := s.Guard.Thread(x.Context(), x.Principal(), x.Param("threadId"))
	if err != nil {
		return err
	}
	limit, offset := number(x, "limit", 10), number(x, "offset", 0)
	var ids []string
	for record, err := range s.Bus.ThreadRecords(x.Context(), x.Principal().Tenant, t.ThreadID, 0) {
		if err != nil {
			return authz.Unavailable(err)
		}
		if record.RequestID != "" {
			ids = append(ids, record.RequestID)
		}
	}
	slices.Reverse(ids)
	runs := []Run{}
	for _, requestID := range page(ids, offset, min(limit, maxRuns)) {
		r, err := s.Guard.Request(x.Context(), x.Principal(), requestID)
		if err != nil {
			return err
		}
		one, err := s.run(x.Context(), r)
		if err != nil {
			return err
		}
		if wanted := x.Query().Get("status"); wanted == "" || wanted == one.Status {
			runs = append(runs, one)
		}
	}
	return x.Reply(http.StatusOK, runs)
}

// number returns a parameter of the URL, or its default value.
func number(x *protocol.Exchange, name string, otherwise int) int {
	n, err := strconv.Atoi(x.Query().Get(name))
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}

// fromStart is the id of an event with which clients ask for a stream from its first event.
const fromStart = "-1"

// joinStream streams a run from its first event, or after the client's cursor.
func (s *Server) joinStream(x *protocol.Exchange) error {
	done := x.WithTimeout()
	defer done()
	cursor, err := x.Cursor()
	if err != nil {
		return err
	}
	if cursor == fromStart {
		cursor = ""
	}
	r, err := s.find(x)
	x.Audit(r.ThreadID, r.RequestID, err)
	if err != nil {
		return err
	}
	modes, err := joinModes(x, wire.ReadStored(r.Note).Modes)
	if err != nil {
		return err
	}
	var from uint64
	if cursor != "" {
		at, err := s.Logs.Resume(x.Context(), r, cursor)
		if err != nil {
			return err
		}
		if at.Ended {
			x.Write(http.StatusOK, "text/event-stream", nil)
			return nil
		}
		from, r.Known.Newest = at.From, at.Newest
	}
	enc, err := x.Encoder(wire.Codec{Modes: modes, Earlier: s.earlier(x, r.ThreadID, r.RequestID)}, codec.Options{From: from})
	if err != nil {
		return err
	}
	frames, err := s.Logs.Open(x.Context(), r, enc.Start())
	if err != nil {
		return err
	}
	response := x.Resume(frames)
	response.Encoder = enc
	x.SetHeader("Content-Location", "/threads/"+r.ThreadID+"/runs/"+r.RequestID)
	if x.Query().Get("cancel_on_disconnect") == "1" {
		s.cancelOnDisconnect(x, &response, r.RequestID)
	}
	done()
	return x.Stream(response)
}

// joinModes returns the modes that the client asks for, else those with which the run was started.
func joinModes(x *protocol.Exchange, started []string) (wire.Modes, error) {
	names := x.QueryList("stream_mode")
	if len(names) == 1 && names[0] != "" && names[0][0] == '[' { // a list as JSON
		if err := jsonv2.Unmarshal([]byte(names[0]), &names); err != nil {
			return wire.Modes{}, apierr.New(apierr.InvalidMessageFormat, "stream_mode must be a mode, or a list of modes")
		}
	}
	if len(names) == 0 {
		names = started
	}
	return wire.ParseModes(names)
}

// joinRun waits for the end of a run, and responds with the state of its thread.
func (s *Server) joinRun(x *protocol.Exchange) error {
	r, err := s.find(x)
	x.Audit(r.ThreadID, r.RequestID, err)
	if err != nil {
		return err
	}
	frames, err := s.Logs.Open(x.Context(), r, 0)
	if err != nil {
		return err
	}
	response := x.Resume(frames)
	if x.Query().Get("cancel_on_disconnect") == "1" {
		s.cancelOnDisconnect(x, &response, r.RequestID)
	}
	return s.replyFinal(x, response, r.ThreadID, r.RequestID)
}

// cancelRun aborts a run. A run that has ended stays as it is.
func (s *Server) cancelRun(x *protocol.Exchange) error {
	if action := x.Query().Get("action"); action != "" && action != "interrupt" {
		return apierr.New(apierr.InvalidMessageFormat, "action %.40q is not supported; use \"interrupt\"", action)
	}
	r, err := s.find(x)
	if err != nil {
		return err
	}
	end, _, err := s.terminal(x.Context(), r)
	if err != nil {
		return err
	}
	if len(end) == 0 {
		abort := record.Abort{RequestID: r.RequestID, By: x.Principal().Subject, At: s.Bus.Now().UTC()}
		if err := s.Acceptor.Abort(x.Context(), r.Tenant, abort); err != nil {
			return authz.Unavailable(err)
		}
		if x.Query().Get("wait") == "1" {
			if err := s.Acceptor.AwaitEnd(x.Context(), r.Log()); err != nil {
				return authz.Unavailable(err)
			}
		}
	}
	x.NoContent()
	return nil
}

// abortTimeout limits an abort whose client has gone.
const abortTimeout = 5 * time.Second

// abortLater aborts a run whose client has disconnected.
func (s *Server) abortLater(tenant, requestID, by string) {
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	err := s.Acceptor.Abort(ctx, tenant, record.Abort{
		RequestID: requestID, By: by, Reason: "the client disconnected", At: s.Bus.Now().UTC(),
	})
	if err != nil {
		s.Log.ErrorContext(ctx, "could not abort a run without a client", telemetry.LogRequest, requestID, "error", err)
	}
}
