package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
	"github.com/agentbus/agentbus/services/gateway/internal/protocol/a2a/wire"
	"github.com/agentbus/agentbus/services/gateway/internal/stream"
)

// call is a call of an operation, by either binding.
type call struct {
	*protocol.Exchange
	agentID string
	rpc     json.RawMessage // the id of the call of JSON-RPC; nil = the HTTP+JSON binding
}

// newCall checks what each operation needs.
func newCall(x *protocol.Exchange) (call, error) {
	version := x.Header("A2A-Version")
	if version == "" {
		version = x.Query().Get("A2A-Version")
	}
	if err := wire.CheckVersion(version); err != nil {
		return call{}, err
	}
	if strings.Contains(x.Header(extensionsHeader), extensionURI) {
		x.SetHeader(extensionsHeader, extensionURI)
	}
	agentID, err := checkAgent(x)
	return call{Exchange: x, agentID: agentID}, err
}

// reply writes a value as the binding has it.
func (c call) reply(value any) error {
	if c.rpc != nil {
		return c.Reply(http.StatusOK, wire.Result(c.rpc, value))
	}
	return c.ReplyAs(http.StatusOK, wire.MediaType, value)
}

// postCall serves the JSON-RPC binding.
func (s *Server) postCall(x *protocol.Exchange) error {
	if _, err := checkAgent(x); err != nil {
		return err
	}
	body, err := x.Body()
	if err != nil {
		return err
	}
	in, err := wire.DecodeCall(body)
	if err == nil {
		err = s.dispatch(x, in)
	}
	if err == nil || errors.Is(err, stream.ErrTruncated) || errors.Is(err, context.Canceled) {
		return err
	}
	return x.Reply(http.StatusOK, wire.RPCError(in.ID, x.Error(err)))
}

func (s *Server) dispatch(x *protocol.Exchange, in wire.Call) error {
	c, err := newCall(x)
	if err != nil {
		return err
	}
	c.rpc = in.ID
	switch in.Method {
	case "SendMessage", "SendStreamingMessage":
		if err := mayRun(x); err != nil {
			return err
		}
		return s.sendRPC(c, in)
	case "GetTask", "CancelTask", "SubscribeToTask":
		return s.taskRPC(c, in)
	case "ListTasks":
		q, err := wire.DecodeListQuery(in.Params)
		if err != nil {
			return err
		}
		return s.list(c, q)
	case "GetExtendedAgentCard":
		return s.extendedCard(c)
	case "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs",
		"DeleteTaskPushNotificationConfig":
		return s.pushRPC(c, in)
	default:
		return wire.MethodNotFound.New("there is no method %.64q in version %s of the protocol", in.Method, wire.Version)
	}
}

func (s *Server) sendRPC(c call, in wire.Call) error {
	message, err := wire.DecodeSend(in.Params)
	if err != nil {
		return err
	}
	if in.Method == "SendMessage" {
		return s.send(c, message)
	}
	return s.sendStreaming(c, message)
}

func (s *Server) taskRPC(c call, in wire.Call) error {
	q, err := wire.DecodeTaskQuery(in.Params)
	if err != nil {
		return err
	}
	switch in.Method {
	case "GetTask":
		return s.get(c, q)
	case "CancelTask":
		return s.cancel(c, q.ID)
	default:
		return s.subscribe(c, q.ID)
	}
}

// rest returns the handler of a route of the HTTP+JSON binding.
func (s *Server) rest(serve func(call) error) func(*protocol.Exchange) error {
	return func(x *protocol.Exchange) error {
		c, err := newCall(x)
		if err != nil {
			return err
		}
		return serve(c)
	}
}

// postMessage serves message:send and message:stream.
func (s *Server) postMessage(c call) error {
	operation := c.Param("operation")
	if operation != "message:send" && operation != "message:stream" {
		return noOperation(operation)
	}
	body, err := c.Body()
	if err != nil {
		return err
	}
	in, err := wire.DecodeSend(body)
	if err != nil {
		return err
	}
	if operation == "message:send" {
		return s.send(c, in)
	}
	return s.sendStreaming(c, in)
}

// getTask serves tasks/{id} and tasks/{id}:subscribe.
func (s *Server) getTask(c call) error {
	taskID, verb, _ := strings.Cut(c.Param("taskId"), ":")
	switch verb {
	case "":
		length, err := wire.ParseLength("historyLength", c.Query().Get("historyLength"))
		if err != nil {
			return err
		}
		return s.get(c, wire.TaskQuery{ID: taskID, HistoryLength: length})
	case "subscribe":
		return s.subscribe(c, taskID)
	default:
		return noOperation(verb)
	}
}

// postTask serves tasks/{id}:cancel and tasks/{id}:subscribe, for which the specification has both GET and POST.
func (s *Server) postTask(c call) error {
	taskID, verb, _ := strings.Cut(c.Param("taskId"), ":")
	switch verb {
	case "cancel":
		return s.cancel(c, taskID)
	case "subscribe":
		return s.subscribe(c, taskID)
	default:
		return noOperation(verb)
	}
}

func noOperation(name string) error {
	return apierr.New(apierr.RouteNotFound, "there is no operation %.64q; see https://a2a-protocol.org/v1.0.0/specification", name)
}

func (s *Server) listTasks(c call) error {
	q, err := wire.ParseListQuery(c.Query())
	if err != nil {
		return err
	}
	return s.list(c, q)
}
