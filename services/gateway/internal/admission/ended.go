package admission

import (
	"context"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
)

// sumUp is what those who follow a thread are told at its end, as long as somebody knows. A history that does not answer
// keeps nobody from deleting: then it is nil.
func (d *Acceptor) sumUp(ctx context.Context, ref historyapi.ThreadRef) *record.Ended {
	session, err := d.history.Session(ctx, ref)
	messages := 0
	if err == nil {
		messages, err = d.messages(ctx, ref)
	}
	if err != nil {
		d.log.WarnContext(ctx, "who follows a deleted thread is not told what it held", "threadId", ref.ThreadID, "error", err)
		return nil
	}
	return &record.Ended{BeganAt: session.CreatedAt, At: d.bus.Now().UTC(), Messages: messages}
}

// messages counts what users and models have said on a thread.
func (d *Acceptor) messages(ctx context.Context, ref historyapi.ThreadRef) (n int, err error) {
	told := func(name event.Name) bool { return name == event.NameInput || name == event.NameUsage }
	for part, err := range d.history.AllThreadFrames(ctx, historyapi.ThreadFramesQuery{ThreadRef: ref, Without: allBut(told), Limit: 2000}) {
		if err != nil {
			return 0, err
		}
		for _, frame := range part.Frames {
			for line := range frame.Event().Each() {
				said, err := saidIn(line)
				if err != nil {
					return 0, err
				}
				n += said
			}
		}
	}
	return n, nil
}

// saidIn counts the messages of an event.
func saidIn(line event.Line) (int, error) {
	if line.Name == event.NameUsage {
		return 1, nil
	}
	e, err := event.Decode(line.JSON)
	if err != nil {
		return 0, err
	}
	input, _ := e.Body.(event.Input)
	return len(input.Messages), nil
}

func allBut(wanted func(event.Name) bool) []event.Name {
	var others []event.Name
	for _, name := range event.Names() {
		if !wanted(name) {
			others = append(others, name)
		}
	}
	return others
}
