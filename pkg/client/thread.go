package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// ThreadOptions change how a thread is followed. The zero value begins with the request that runs, or else with the next
// one.
type ThreadOptions struct {
	// Include is as in [StreamOptions]; what was said ([event.Input]) comes in any case.
	Include []string
	// FromStart begins with the thread's first request.
	FromStart bool
	// After is a cursor that At was given: only later events are yielded.
	After event.Cursor
	// At is called before each event is yielded, with the cursor of its place in the thread. It differs from the event's ID,
	// which is its place in the log of its request.
	At func(event.Cursor)
}

// FollowThread yields the events of a thread, request after request, each exactly once and in order, as other clients
// of the thread see them. It resumes a cut connection. It ends when the iteration is ended, ctx ends, or the thread is
// deleted.
func (c *Client) FollowThread(ctx context.Context, threadID string, o ThreadOptions) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		if threadID == "" {
			yield(event.Event{}, errors.New("follow a thread: its id is missing"))
			return
		}
		s := newSession(c, o.Include)
		s.thread = &following{id: threadID, fromStart: o.FromStart, at: o.At}
		if o.After != "" {
			_, last, err := parseThreadCursor(o.After)
			if err != nil {
				yield(event.Event{}, err)
				return
			}
			s.cursor, s.next = o.After, last.behind()
		}
		s.run(ctx, yield)
	}
}

// following is a session's state of the thread that it follows; nil if it follows no thread.
type following struct {
	id        string
	fromStart bool
	at        func(event.Cursor)
	opened    bool // the last connection was established
	known     bool // any one did
}

func (f *following) path() string {
	f.opened = false
	return "/v1/threads/" + url.PathEscape(f.id) + "/stream"
}

// lasted reports whether the last connection was established: a thread may be silent for longer than one lasts.
func (f *following) lasted() bool { return f != nil && f.opened }

// deleted reports whether err means that the thread was deleted. If the thread never existed, that is an error.
func (f *following) deleted(err error) bool {
	return f != nil && f.known && apierr.CodeOf(err) == apierr.ThreadNotFound
}

func (f *following) reached(c event.Cursor) {
	if f.at != nil {
		f.at(c)
	}
}

// position is the position of an event: in the log of the request with an index on its thread.
type position struct {
	index, n uint64
}

func (p position) before(q position) bool {
	return p.index < q.index || p.index == q.index && p.n < q.n
}

func (p position) behind() position { return position{p.index, p.n + 1} }

// parseThreadCursor reads a cursor of the form <incarnation>-<index>.<n>.
func parseThreadCursor(c event.Cursor) (incarnation string, at position, err error) {
	head, tail, ok := strings.Cut(string(c), ".")
	if ok {
		if incarnation, at.index, err = event.ParseCursor(head); err == nil {
			at.n, err = strconv.ParseUint(tail, 10, 63)
		}
	}
	if !ok || err != nil {
		return "", position{}, fmt.Errorf("%.80q is not a cursor of a thread", string(c))
	}
	return incarnation, at, nil
}
