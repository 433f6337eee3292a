// Package inspect shows the log of a request or of a thread: each event with its time, or the number of events of each
// type, and whether they match the contract.
package inspect

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// Options select a log and the form in which it is shown.
type Options struct {
	Client *client.Client
	ID     string             // of a request or of a thread
	Format Format             // how the events are written
	Filter eventstream.Filter // which events, by type and time
	Last   int                // show only the newest ones; 0 = all

	Validate bool   // check every event against the contract
	Stats    bool   // count the events, do not show them
	Output   string // a file for the events as a JSON array; "" = none
	JSON     bool   // one value per line, for a program
}

// Run shows a log: the requested output goes to out, everything else to side. It returns screen.ErrTold if events do
// not match the contract.
func Run(ctx context.Context, o Options, out, side io.Writer) error {
	format, err := o.Format.format()
	if err != nil {
		return err
	}
	if err := format.check(o.Filter.Types); err != nil {
		return err
	}
	entries := keep(format.entries(o.log(ctx)), o.Filter)
	if o.Last > 0 {
		entries = last(entries, o.Last)
	}
	var check *checker
	if o.Validate {
		if check, err = newChecker(format.schemas, side); err != nil {
			return err
		}
		entries = check.checkAll(entries)
	}
	if err := o.write(entries, out, side); err != nil {
		return err
	}
	if check == nil {
		return nil
	}
	return check.result()
}

// write writes the events in the requested form.
func (o Options) write(entries iter.Seq2[entry, error], out, side io.Writer) error {
	switch {
	case o.Output != "":
		return save(entries, o.Output, side)
	case o.Stats:
		return count(entries, out, o.JSON)
	case o.JSON:
		return lines(entries, out)
	case o.Validate:
		return drain(entries)
	default:
		return show(entries, out)
	}
}

// drain reads all entries, which validates them.
func drain(entries iter.Seq2[entry, error]) error {
	for _, err := range entries {
		if err != nil {
			return err
		}
	}
	return nil
}

// log yields the stored events of a request or of a thread. The log of an ended request is read directly; the events of
// a running one are selected from its thread, because reading its log would follow it.
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

// open opens the log of a request or of a thread. The prefix of an id says which it is; any other id is looked up as a request
// first, and the gateway logs a refusal.
func (o Options) open(ctx context.Context) (iter.Seq2[event.Event, error], error) {
	if strings.HasPrefix(o.ID, id.Thread+"_") || strings.HasPrefix(o.ID, id.Subthread+"_") {
		return o.thread(ctx)
	}
	request, err := o.Client.Request(ctx, o.ID)
	switch {
	case apierr.CodeOf(err) == apierr.RequestNotFound:
		return o.thread(ctx)
	case err != nil:
		return nil, err
	case request.Status == historyapi.StatusQueued || request.Status == historyapi.StatusRunning:
		return ofRequest(o.ID, o.Client.Events(ctx, request.ThreadID, client.EventsQuery{})), nil
	default:
		return o.Client.Follow(ctx, o.ID, "", client.Extended), nil
	}
}

func (o Options) thread(ctx context.Context) (iter.Seq2[event.Event, error], error) {
	_, err := o.Client.Thread(ctx, o.ID)
	if apierr.CodeOf(err) == apierr.ThreadNotFound {
		return nil, apierr.New(apierr.ThreadNotFound, "there is neither a request nor a thread %s; `agentbus threads` lists yours", o.ID)
	}
	if err != nil {
		return nil, err
	}
	return o.Client.Events(ctx, o.ID, o.part()), nil
}

// part selects the events to read of a thread: in Tarko's vocabularies an event may depend on all events before it.
func (o Options) part() client.EventsQuery {
	if o.Format != Native {
		return client.EventsQuery{}
	}
	return client.EventsQuery{Since: o.Filter.Since, Until: o.Filter.Until}
}

// ofRequest yields the events of one request.
func ofRequest(requestID string, events iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for e, err := range events {
			if (err != nil || e.RequestID == requestID) && !yield(e, err) {
				return
			}
		}
	}
}

// keep yields the events that f selects.
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
			if newest = append(newest, e); len(newest) > 2*n { // seldom, so that the cost is small
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
