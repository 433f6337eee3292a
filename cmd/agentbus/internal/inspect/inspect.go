// Package inspect shows the log of a request or of a thread to a person who wants to know what happened: each event with
// its time, or how many there were of each type, and whether they are as the contract says.
package inspect

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/eventstream"
	"github.com/agentbus/agentbus/pkg/fault"
	"github.com/agentbus/agentbus/pkg/query"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Options say what is looked at, and how.
type Options struct {
	Client *client.Client
	ID     string             // of a request or of a thread
	Filter eventstream.Filter // which events; an event's session is its request
	Last   int                // only so many, the newest; 0 = all

	Validate bool   // check every event against the contract
	Stats    bool   // count instead of showing
	Output   string // a file that takes the events as a JSON array; "" = none
	JSON     bool   // one value a line, for a program
}

// Run looks at a log and tells of it: what was asked for to out, everything else to side. It returns screen.ErrTold
// when events are not as the contract says.
func Run(ctx context.Context, o Options, out, side io.Writer) error {
	if err := known(o.Filter.Types); err != nil {
		return err
	}
	entries := keep(written(o.log(ctx)), o.Filter)
	if o.Last > 0 {
		entries = last(entries, o.Last)
	}
	var check *checker
	if o.Validate {
		var err error
		if check, err = newChecker(side); err != nil {
			return err
		}
		entries = check.all(entries)
	}
	if err := o.tell(entries, out, side); err != nil {
		return err
	}
	if check == nil {
		return nil
	}
	return check.verdict()
}

// known refuses types that no event has.
func known(types []string) error {
	for _, name := range types {
		if !slices.Contains(event.Names(), event.Name(name)) {
			return fmt.Errorf("no event is of the type %q; there are %v", name, event.Names())
		}
	}
	return nil
}

// tell writes the events in the way that was asked for.
func (o Options) tell(entries iter.Seq2[entry, error], out, side io.Writer) error {
	switch {
	case o.Output != "":
		return save(entries, o.Output, side)
	case o.Stats:
		return count(entries, out, o.JSON)
	case o.JSON:
		return lines(entries, out)
	default:
		return show(entries, out)
	}
}

// log yields the events of a request or of a thread, as far as they go now. A request that has ended is read from its own
// log; one that has not would be followed there, and is picked out of its thread instead.
func (o Options) log(ctx context.Context) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		events, err := o.open(ctx)
		if err != nil {
			yield(event.Event{}, err)
			return
		}
		events(yield)
	}
}

func (o Options) open(ctx context.Context) (iter.Seq2[event.Event, error], error) {
	request, err := o.Client.Request(ctx, o.ID)
	switch {
	case fault.CodeOf(err) == fault.RequestNotFound:
		return o.thread(ctx)
	case err != nil:
		return nil, err
	case request.Status == query.StatusQueued || request.Status == query.StatusRunning:
		return of(o.ID, o.Client.Events(ctx, request.ThreadID, client.EventsQuery{})), nil
	default:
		return o.Client.Follow(ctx, o.ID, "", client.Extended), nil
	}
}

func (o Options) thread(ctx context.Context) (iter.Seq2[event.Event, error], error) {
	_, err := o.Client.Thread(ctx, o.ID)
	if fault.CodeOf(err) == fault.ThreadNotFound {
		return nil, fault.New(fault.ThreadNotFound, "there is neither a request nor a thread %s; `agentbus threads` lists yours", o.ID)
	}
	if err != nil {
		return nil, err
	}
	return o.Client.Events(ctx, o.ID, client.EventsQuery{Since: o.Filter.Since, Until: o.Filter.Until}), nil
}

// of yields the events of one request.
func of(requestID string, events iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for e, err := range events {
			if (err != nil || e.RequestID == requestID) && !yield(e, err) {
				return
			}
		}
	}
}

// entry is an event as it is written.
type entry struct {
	event eventstream.Event // its session is the request
	line  jsontext.Value
}

// written yields events as the native protocol writes them.
func written(events iter.Seq2[event.Event, error]) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for e, err := range events {
			var written entry
			if err == nil {
				written, err = native(e)
			}
			if !yield(written, err) || err != nil {
				return
			}
		}
	}
}

func native(e event.Event) (entry, error) {
	line, err := event.Encode(e)
	if err != nil {
		return entry{}, err
	}
	data, err := json.Marshal(e.Body, json.Deterministic(true))
	if err != nil {
		return entry{}, fmt.Errorf("encode the body of event %s: %w", e.ID, err)
	}
	return entry{
		event: eventstream.Event{ID: string(e.ID), Type: string(e.Body.Name()), Time: e.Time, SessionID: e.RequestID, Data: data},
		line:  line,
	}, nil
}

// keep yields the events that f means.
func keep(entries iter.Seq2[entry, error], f eventstream.Filter) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for e, err := range entries {
			if (err != nil || f.Match(e.event)) && !yield(e, err) {
				return
			}
		}
	}
}

// last yields the last n events.
func last(entries iter.Seq2[entry, error], n int) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		var newest []entry
		for e, err := range entries {
			if err != nil {
				yield(entry{}, err)
				return
			}
			if newest = append(newest, e); len(newest) > 2*n { // seldom, so that it costs little
				newest = append([]entry(nil), newest[len(newest)-n:]...)
			}
		}
		for _, e := range newest[max(0, len(newest)-n):] {
			if !yield(e, nil) {
				return
			}
		}
	}
}
