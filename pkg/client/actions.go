package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

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
