package admission

import (
	"context"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/pkg/telemetry"
)

// summary returns what followers of a thread get at its end. It is nil if history does not answer: that must not
// prevent the deletion.
func (d *Acceptor) summary(ctx context.Context, ref historyapi.ThreadRef) *record.Ended {
	session, err := d.history.Session(ctx, ref)
	messages := 0
	if err == nil {
		messages, err = d.messages(ctx, ref)
	}
	if err != nil {
		d.log.WarnContext(ctx, "could not read the summary of a deleted thread; its followers get none", telemetry.LogThread, ref.ThreadID, "error", err)
		return nil
	}
	return &record.Ended{BeganAt: session.CreatedAt, At: d.bus.Now().UTC(), Messages: messages}
}

// messages counts the messages of users and models on a thread.
func (d *Acceptor) messages(ctx context.Context, ref historyapi.ThreadRef) (n int, err error) {
	told := func(name event.Name) bool { return name == event.NameInput || name == event.NameUsage }
	for part, err := range d.history.AllThreadFrames(ctx, historyapi.ThreadFramesQuery{ThreadRef: ref, Without: allBut(told), Limit: 2000}) {
		if err != nil {
			return 0, err
		}
		for _, frame := range part.Frames {
			for line := range frame.Event().Each() {
				said, err := countMessages(line)
				if err != nil {
					return 0, err
				}
				n += said
			}
		}
	}
	return n, nil
}

// countMessages counts the messages of an event.
func countMessages(line event.Line) (int, error) {
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
