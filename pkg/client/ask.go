package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

// Agent is an agent that requests can be sent to.
type Agent struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Backend     string   `json:"backend"`
	Model       string   `json:"model,omitempty"`
	Models      []string `json:"models,omitempty"` // that a request may select; "*" = any
	Tools       []string `json:"tools,omitempty"`
}

// Agents lists the agents, by name.
func (c *Client) Agents(ctx context.Context) ([]Agent, error) {
	var answer struct {
		Agents []Agent `json:"agents"`
	}
	err := c.ask(ctx, http.MethodGet, "/v1/agents", nil, &answer)
	return answer.Agents, err
}

// Request returns the status of a request.
func (c *Client) Request(ctx context.Context, requestID string) (historyapi.Request, error) {
	var answer historyapi.Request
	err := c.ask(ctx, http.MethodGet, "/v1/requests/"+url.PathEscape(requestID), nil, &answer)
	return answer, err
}

// Abort asks for the end of a request. It returns when the wish is recorded; the stream ends with the event aborted soon
// after. It fails with apierr.RequestFinished when the request has ended.
func (c *Client) Abort(ctx context.Context, requestID string) error {
	return c.AbortFor(ctx, requestID, "")
}

// AbortFor is [Client.Abort] with a reason, which the event aborted contains. Only the first abort of a request counts.
func (c *Client) AbortFor(ctx context.Context, requestID, reason string) error {
	body := struct {
		Reason string `json:"reason,omitempty"`
	}{reason}
	return c.post(ctx, "/v1/requests/"+url.PathEscape(requestID)+"/abort", body, nil)
}

// Steer says something to a request that runs, and returns when that is recorded. The model reads it before its next
// turn: the stream then has an event input with this steerId, for those who include it. It fails with
// apierr.RequestFinished when the request has ended. A steer that comes too late to be read has no such event before the
// terminal one: say it again with [Client.FollowUp].
func (c *Client) Steer(ctx context.Context, requestID string, messages ...event.InputMessage) (steerID string, err error) {
	body := struct {
		Messages []event.InputMessage `json:"messages"`
	}{messages}
	var answer struct {
		SteerID string `json:"steerId"`
	}
	err = c.post(ctx, "/v1/requests/"+url.PathEscape(requestID)+"/steer", body, &answer)
	return answer.SteerID, err
}

// Started is a request that was accepted; [Client.Follow] shows what becomes of it.
type Started struct {
	RequestID string            `json:"requestId"`
	ThreadID  string            `json:"threadId"`
	AgentID   string            `json:"agentId"`
	Status    historyapi.Status `json:"status"`
}

// Start starts a request and returns when it is accepted, without waiting for its events.
func (c *Client) Start(ctx context.Context, agent string, r event.AgentRequest) (Started, error) {
	var answer Started
	err := c.post(ctx, "/v1/agents/"+url.PathEscape(agent)+"/requests", r, &answer)
	return answer, err
}

// FollowUp starts a request of the same agent on the thread of a request, to run after all that runs or waits there.
// ThreadID and action results must be left out of r. It fails with apierr.ThreadBusy when too many wait already.
func (c *Client) FollowUp(ctx context.Context, requestID string, r event.AgentRequest) (Started, error) {
	var answer Started
	err := c.post(ctx, "/v1/requests/"+url.PathEscape(requestID)+"/follow-up", r, &answer)
	return answer, err
}

// Page says which part of a list is wanted. The zero value is the first page, of the server's usual size.
type Page struct {
	Limit  int
	Cursor string // NextCursor of the page before
}

func (p Page) query() url.Values {
	q := url.Values{}
	if p.Limit > 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	return q
}

// Threads lists the caller's threads, the newest change first.
func (c *Client) Threads(ctx context.Context, page Page) (historyapi.ThreadPage, error) {
	var answer historyapi.ThreadPage
	err := c.ask(ctx, http.MethodGet, "/v1/threads", page.query(), &answer)
	return answer, err
}

// Thread returns a thread, or fails with apierr.ThreadNotFound.
func (c *Client) Thread(ctx context.Context, threadID string) (historyapi.Thread, error) {
	var answer historyapi.Thread
	err := c.ask(ctx, http.MethodGet, "/v1/threads/"+url.PathEscape(threadID), nil, &answer)
	return answer, err
}

// Messages lists the messages of a thread in order.
func (c *Client) Messages(ctx context.Context, threadID string, page Page) (historyapi.MessagePage, error) {
	var answer historyapi.MessagePage
	err := c.ask(ctx, http.MethodGet, "/v1/threads/"+url.PathEscape(threadID)+"/messages", page.query(), &answer)
	return answer, err
}

// DeleteThread removes a thread and all its requests for good.
func (c *Client) DeleteThread(ctx context.Context, threadID string) error {
	return c.ask(ctx, http.MethodDelete, "/v1/threads/"+url.PathEscape(threadID), nil, nil)
}
