package langgraph

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/langgraph/wire"
	jsonv2 "github.com/go-json-experiment/json"
)

// command carries out a command of the thread protocol. What is wrong with the command is a response; what is wrong with the
// request is an error of HTTP.
func (s *Server) command(x *protocol.Exchange) error {
	body, err := x.Body()
	if err != nil {
		return err
	}
	c, err := wire.DecodeCommand(body)
	if err != nil {
		return err
	}
	reply, err := s.carryOut(x, c, body)
	if err != nil {
		explained, ok := c.Explain(err)
		if !ok {
			return err
		}
		reply = explained
	}
	return x.Reply(http.StatusOK, reply)
}

func (s *Server) carryOut(x *protocol.Exchange, c wire.Command, body []byte) (wire.Reply, error) {
	switch c.Method {
	case "run.start":
		return s.startByCommand(x, c, body)
	case "input.respond":
		return s.respond(x, c, body)
	case "input.inject":
		return s.inject(x, c)
	case "state.get":
		return s.stateByCommand(x, c)
	case "state.listCheckpoints":
		return s.checkpoints(x, c)
	case "agent.getTree":
		return s.tree(x, c)
	case "state.fork":
		return c.Failure(wire.CodeNotSupported, "a thread has no branches; runs start from the newest state"), nil
	case "subscription.subscribe", "subscription.unsubscribe", "subscription.reconnect":
		return c.Failure(wire.CodeNotSupported, "subscribe with POST …/stream/events"), nil
	default:
		return c.Failure(wire.CodeUnknown, "there is no such command; see docs/langgraph.md"), nil
	}
}

// startByCommand starts a run. On a thread that waits for answers, an input other than messages is the answer.
func (s *Server) startByCommand(x *protocol.Exchange, c wire.Command, body []byte) (wire.Reply, error) {
	in, err := wire.DecodeStart(c.Params)
	if err != nil {
		return wire.Reply{}, err
	}
	if in.MayAnswer() {
		open, err := s.openActions(x.Context(), x.Principal(), x.Param("threadId"))
		if err != nil {
			return wire.Reply{}, err
		}
		if len(open) > 0 {
			in = in.Answer()
		}
	}
	receipt, err := s.start(x, in, body)
	if err != nil {
		return wire.Reply{}, err
	}
	return c.Success(map[string]string{"run_id": receipt.RequestID}), nil
}

// respond answers interrupts.
func (s *Server) respond(x *protocol.Exchange, c wire.Command, body []byte) (wire.Reply, error) {
	t, err := s.Guard.Thread(x.Context(), x.Principal(), x.Param("threadId"))
	if err != nil {
		return wire.Reply{}, err
	}
	if t.RequestID == "" {
		return c.Failure(wire.CodeNoRun, "the thread has no run"), nil
	}
	in, ids, err := wire.DecodeRespond(c.Params, t.AgentID)
	if err != nil {
		return wire.Reply{}, err
	}
	open, err := s.openActions(x.Context(), x.Principal(), t.ThreadID)
	if err != nil {
		return wire.Reply{}, err
	}
	for _, one := range ids {
		if !slices.ContainsFunc(open, func(a historyapi.Action) bool { return a.ActionID == one }) {
			return c.Failure(wire.CodeNoInterrupt, "the thread does not wait for an answer to "+one), nil
		}
	}
	if _, err := s.start(x, in, body); err != nil {
		return wire.Reply{}, err
	}
	return c.Success(struct{}{}), nil
}

// inject adds a message to the run that runs.
func (s *Server) inject(x *protocol.Exchange, c wire.Command) (wire.Reply, error) {
	in, err := wire.DecodeInject(c.Params)
	if err != nil {
		return wire.Reply{}, err
	}
	ctx, p := x.Context(), x.Principal()
	t, err := s.Guard.Thread(ctx, p, x.Param("threadId"))
	if err != nil {
		return wire.Reply{}, err
	}
	if t, err = s.Acceptor.Running(ctx, p.Tenant, t); err != nil {
		return wire.Reply{}, authz.Unavailable(err)
	}
	if t.RequestID == "" {
		return c.Failure(wire.CodeNoRun, "the thread has no run"), nil
	}
	r, err := s.Guard.Request(ctx, p, t.RequestID)
	if err != nil {
		return wire.Reply{}, err
	}
	if end, _, err := s.terminal(ctx, r); err != nil || len(end) > 0 {
		return c.Failure(wire.CodeNoRun, "no run of the thread is running; send the message with run.start"), err
	}
	_, err = s.Acceptor.Steer(ctx, r, record.Steer{
		RequestID: r.RequestID, SteerID: id.New(id.Steer), By: r.Owner, At: s.Bus.Now().UTC(),
		Messages: []event.InputMessage{{Role: event.RoleUser, Content: event.InputContent{{Type: event.ContentText, Text: in.Message.Content}}}},
	}, x.CheckStorage())
	return c.Success(struct{}{}), err
}

// checkpointRef names a state of a thread.
type checkpointRef struct {
	ID        string     `json:"id"`
	Timestamp *time.Time `json:"timestamp,omitempty"`
	Step      *int       `json:"step,omitempty"`
}

// stateByCommand returns the state of the thread, or some members of it.
func (s *Server) stateByCommand(x *protocol.Exchange, c wire.Command) (wire.Reply, error) {
	var q struct {
		Keys []string `json:"keys"`
	}
	if err := wire.Decode(c.Params, &q); err != nil {
		return wire.Reply{}, err
	}
	all, err := s.history(x, x.Param("threadId"))
	if err != nil {
		return wire.Reply{}, err
	}
	result := struct {
		Values     map[string]json.RawMessage `json:"values"`
		Checkpoint *checkpointRef             `json:"checkpoint,omitempty"`
	}{Values: map[string]json.RawMessage{}}
	if len(all) == 0 {
		return c.Success(result), nil
	}
	text, err := jsonv2.Marshal(all[0].Values)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := jsonv2.Unmarshal(text, &result.Values); err != nil {
		return wire.Reply{}, err
	}
	for name := range result.Values {
		if q.Keys != nil && !slices.Contains(q.Keys, name) {
			delete(result.Values, name)
		}
	}
	result.Checkpoint = &checkpointRef{ID: all[0].Checkpoint.CheckpointID}
	return c.Success(result), nil
}

// checkpoints lists the states of the thread, the newest first.
func (s *Server) checkpoints(x *protocol.Exchange, c wire.Command) (wire.Reply, error) {
	var q struct {
		Limit  int    `json:"limit"`
		Before string `json:"before"`
	}
	if err := wire.Decode(c.Params, &q); err != nil {
		return wire.Reply{}, err
	}
	all, err := s.history(x, x.Param("threadId"))
	if err != nil {
		return wire.Reply{}, err
	}
	found := []checkpointRef{}
	after := q.Before == ""
	for _, one := range all {
		if after && (q.Limit <= 0 || len(found) < q.Limit) {
			found = append(found, checkpointRef{one.Checkpoint.CheckpointID, one.CreatedAt, &one.Metadata.Step})
		}
		after = after || one.Checkpoint.CheckpointID == q.Before
	}
	return c.Success(map[string]any{"checkpoints": found}), nil
}

// tree returns the agent of the thread as the one node of a tree, with the state of its newest run.
func (s *Server) tree(x *protocol.Exchange, c wire.Command) (wire.Reply, error) {
	t, err := s.Guard.Thread(x.Context(), x.Principal(), x.Param("threadId"))
	if err != nil {
		return wire.Reply{}, err
	}
	if t.RequestID == "" {
		return c.Failure(wire.CodeNoRun, "the thread has no run"), nil
	}
	r, err := s.Guard.Request(x.Context(), x.Principal(), t.RequestID)
	if err != nil {
		return wire.Reply{}, err
	}
	newest, err := s.run(x.Context(), r)
	if err != nil {
		return wire.Reply{}, err
	}
	status := map[string]string{
		statusPending: "started", statusRunning: "running", statusSuccess: "completed", statusError: "failed", statusInterrupted: "interrupted",
	}[newest.Status]
	return c.Success(map[string]any{"tree": map[string]any{"namespace": []string{}, "status": status, "graph_name": t.AgentID}}), nil
}
