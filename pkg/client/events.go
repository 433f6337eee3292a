package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

// EventsQuery says which events of a thread are wanted. The zero value means all of them.
type EventsQuery struct {
	Types []event.Name // any of these
	Since time.Time    // not before it
	Until time.Time    // before it
}

// pageSize is how many events a page of them holds, the most that a server gives.
const pageSize = 1000

func (q EventsQuery) values() url.Values {
	v := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if len(q.Types) > 0 {
		names := make([]string, len(q.Types))
		for i, name := range q.Types {
			names[i] = string(name)
		}
		v.Set("type", strings.Join(names, ","))
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return v
}

// Events yields the events of a thread that q selects, in the order of requests and of their logs, up to the time at
// which the last page was requested. It fails with apierr.ThreadNotFound if the thread does not exist.
func (c *Client) Events(ctx context.Context, threadID string, q EventsQuery) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		values := q.values()
		for {
			var page historyapi.EventPage
			err := c.ask(ctx, http.MethodGet, "/v1/threads/"+url.PathEscape(threadID)+"/events", values, &page)
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			for _, line := range page.Events {
				e, err := event.Decode(line)
				if err != nil {
					err = fmt.Errorf("an event of thread %s: %w", threadID, err)
				}
				if !yield(e, err) || err != nil {
					return
				}
			}
			if page.NextCursor == "" {
				return
			}
			values.Set("cursor", page.NextCursor)
		}
	}
}
