package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	busyTries = 3 // calls of a server that answers that it has no capacity
	busyWait  = time.Second
)

// tool is a tool whose calls go to the server.
func (s *Source) tool(spec tool.Spec, theirs string) tool.Tool {
	return tool.Func(spec, func(ctx context.Context, args json.RawMessage, call tool.Call) (tool.Result, error) {
		ctx, err := s.options.withHeaders(ctx, call.Context)
		if err != nil {
			return tool.Result{}, err
		}
		in := invocation{spec: spec, name: theirs, args: args, call: call, to: newReceiver(call)}
		result, err := s.invoke(ctx, in)
		result.Events = in.to.emitted()
		return result, err
	})
}

// invocation is a call of a tool.
type invocation struct {
	spec tool.Spec
	name string // at the server
	args json.RawMessage
	call tool.Call
	to   *receiver
	dialog
}

// invoke runs a call, or continues it with the answer of the user, until the server has a result or asks the user.
func (s *Source) invoke(ctx context.Context, in invocation) (tool.Result, error) {
	if in.call.Answer != nil {
		ask, err := in.restore(*in.call.Answer)
		if err != nil || ask != nil {
			return tool.Result{Ask: ask}, err
		}
		if in.refused {
			return tool.Result{}, apierr.New(apierr.ToolError, "the user did not visit the page that the MCP server %s needs visited first", s.options.Name)
		}
	}
	for tries := 1; ; tries++ {
		r, err := s.try(ctx, in)
		if err != nil {
			return tool.Result{}, s.explain(ctx, err)
		}
		if r.ask != nil {
			return tool.Result{Ask: r.ask}, nil
		}
		if !r.result.NeedsInput() {
			return read(r.result)
		}
		if len(r.result.InputRequests) > 0 {
			if !s.options.Elicitation {
				return tool.Result{}, apierr.New(apierr.ToolError, "the MCP server %s asks the user, which its configuration does not allow", s.options.Name)
			}
			ask, err := in.next(r.result.InputRequests, r.result.RequestState)
			return tool.Result{Ask: ask}, err
		}
		if tries == busyTries {
			return tool.Result{}, apierr.New(apierr.ToolError, "the MCP server %s has no capacity for the call; try again later", s.options.Name)
		}
		in.State = r.result.RequestState
		select {
		case <-time.After(busyWait):
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}
}

// reply is what the server does about a call: a result, or a question in the middle of it.
type reply struct {
	result *sdk.CallToolResult
	ask    *tool.Ask
}

// try sends a call to the server, and once more on the next connection if that does no harm.
func (s *Source) try(ctx context.Context, in invocation) (reply, error) {
	if in.Live != "" {
		if c := s.open.take(in.Live); c != nil {
			return s.resume(ctx, in, c)
		}
		if in.spec.Effect == tool.EffectUnsafe {
			return reply{}, errNoLongerOpen
		}
	}
	l, r, err := s.send(ctx, nil, in)
	if err != nil && l != nil && ctx.Err() == nil && repeatable(l, in.spec.Effect, err) {
		_, r, err = s.send(ctx, l, in)
	}
	if requests := visits(err); len(requests) > 0 && s.options.Elicitation {
		in.Visits = true
		r.ask, err = in.next(requests, "")
	}
	return r, err
}

// send runs a call on another connection than not.
func (s *Source) send(ctx context.Context, not *link, in invocation) (*link, reply, error) {
	v, err := s.await(ctx, func(v view) bool { return v.link != nil && v.link != not })
	if err != nil {
		return nil, reply{}, err
	}
	if s.options.Elicitation && !v.link.stateless() {
		return s.sendLive(ctx, v.link, in)
	}
	token, done := s.calls.follow(in.call.ID, in.to)
	defer done()
	result, err := v.link.session.CallTool(ctx, in.params(ctx, token))
	return v.link, reply{result: result}, err
}

func (in invocation) params(ctx context.Context, token string) *sdk.CallToolParams {
	params := &sdk.CallToolParams{Meta: trace(ctx), Name: in.name, Arguments: in.args, RequestState: in.State}
	if in.Live == "" && !in.Visits {
		params.InputResponses = in.responses()
	}
	params.SetProgressToken(token)
	return params
}

// stateless reports whether the server is of a protocol version in which it sends no requests: its questions are the result
// of a call.
func (l *link) stateless() bool {
	return l.session.InitializeResult().ProtocolVersion >= statelessVersion
}

const statelessVersion = "2026-07-28"

// visits are the pages that a server of an older version wants the user to visit before the call.
func visits(err error) sdk.InputRequestMap {
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || refused.Code != sdk.CodeURLElicitationRequired {
		return nil
	}
	var data struct {
		Elicitations []*sdk.ElicitParams `json:"elicitations"`
	}
	if json.Unmarshal(refused.Data, &data) != nil {
		return nil
	}
	requests := sdk.InputRequestMap{}
	for _, e := range data.Elicitations {
		if e != nil {
			requests[e.ElicitationID] = e
		}
	}
	return requests
}
