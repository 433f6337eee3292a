package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

// ActionsQuery says which open actions are wanted. The zero value means all of the caller's.
type ActionsQuery struct {
	ThreadID string
	AgentID  string
	Limit    int    // 1 to 200; 0 = 50
	Cursor   string // NextCursor of the page before
}

// Actions lists the caller's open actions: the approvals, client tools and inputs for which a thread waits. A page can be
// empty; only an empty NextCursor marks the last one.
func (c *Client) Actions(ctx context.Context, q ActionsQuery) (historyapi.ActionPage, error) {
	values := url.Values{}
	for name, value := range map[string]string{"threadId": q.ThreadID, "agentId": q.AgentID, "cursor": q.Cursor} {
		if value != "" {
			values.Set(name, value)
		}
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	var page historyapi.ActionPage
	err := c.ask(ctx, http.MethodGet, "/v1/actions", values, &page)
	return page, err
}

// Approve allows the call that an action of a request waits for. It returns the request that continues: see [Client.Follow].
func (c *Client) Approve(ctx context.Context, requestID, actionID string) (Started, error) {
	return c.Resolve(ctx, requestID, event.ActionResult{ActionID: actionID, Status: event.ActionSuccess})
}

// Deny refuses an action. The model reads the reason, if it is not "".
func (c *Client) Deny(ctx context.Context, requestID, actionID, reason string) (Started, error) {
	return c.Resolve(ctx, requestID, event.ActionResult{ActionID: actionID, Status: event.ActionDenied, Error: reason})
}

// Answer answers a question, or returns the result of a client tool: any JSON.
func (c *Client) Answer(ctx context.Context, requestID, actionID string, result json.RawMessage) (Started, error) {
	return c.Resolve(ctx, requestID, event.ActionResult{ActionID: actionID, Status: event.ActionSuccess, Result: result})
}

// Resolve resolves actions of a request at once, by a request on its thread. It fails with apierr.InvalidActionID if another
// request has resolved one of them.
func (c *Client) Resolve(ctx context.Context, requestID string, results ...event.ActionResult) (Started, error) {
	request, err := c.Request(ctx, requestID)
	if err != nil {
		return Started{}, err
	}
	return c.Start(ctx, request.AgentID, resolving(request.ThreadID, results))
}

func resolving(threadID string, results []event.ActionResult) event.AgentRequest {
	return event.AgentRequest{
		ThreadID: threadID, Messages: []event.InputMessage{}, Context: event.Context{ActionResults: results},
	}
}

// Decide returns the result of an action: it asks the user, or runs the client tool that the payload names. Run sets the ActionID.
type Decide func(context.Context, event.Continuation) (event.ActionResult, error)

// Run yields the events of a request as [Client.Stream] does, and those of the requests that resolve its actions, until one ends
// without an action. An error of decide ends it; the actions stay open.
func (c *Client) Run(ctx context.Context, agent string, r event.AgentRequest, o StreamOptions, decide Decide) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for {
			var actions []event.Continuation
			var done event.Done
			for e, err := range c.Stream(ctx, agent, r, o) {
				if !yield(e, err) || err != nil {
					return
				}
				switch body := e.Body.(type) {
				case event.Continuation:
					actions = append(actions, body)
				case event.Done:
					done = body
				}
			}
			if done.FinishReason != event.FinishActionRequired {
				return
			}
			results, err := decideAll(ctx, actions, decide)
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			r = resolving(done.ThreadID, results)
			o.IdempotencyKey, o.CreateThread = "", false // of the first request only
		}
	}
}

func decideAll(ctx context.Context, actions []event.Continuation, decide Decide) ([]event.ActionResult, error) {
	results := make([]event.ActionResult, len(actions))
	for i, action := range actions {
		result, err := decide(ctx, action)
		if err != nil {
			return nil, err
		}
		result.ActionID = action.ActionID
		results[i] = result
	}
	return results, nil
}
