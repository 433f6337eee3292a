package history_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/history"
)

const tenant = "acme"

func url(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "history.db") }

// start runs history on b until the test ends.
func start(t *testing.T, b *bus.Bus, database string) {
	h, stop := run(t, b, database)
	t.Cleanup(stop)
	awaitReady(t, h)
}

// run runs history on b until stop is called.
func run(t *testing.T, b *bus.Bus, database string) (h *history.History, stop func()) {
	t.Helper()
	return runOn(t, history.BusOf(b), database)
}

func runOn(t *testing.T, b history.Bus, database string) (h *history.History, stop func()) {
	t.Helper()
	h, err := history.New(t.Context(), history.Deps{Bus: b, DatabaseURL: database, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	return h, sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("history ended with %v", err)
		}
	})
}

func awaitReady(t *testing.T, h *history.History) {
	t.Helper()
	err := h.Ready(t.Context())
	for deadline := time.Now().Add(time.Minute); err != nil; err = h.Ready(t.Context()) {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// conversation writes requests on a thread as gateway and runner do.
type conversation struct {
	t        *testing.T
	bus      *bus.Bus
	thread   string
	index    int
	sequence uint64
}

func (c *conversation) requestID() string { return fmt.Sprintf("req_%s_%d", c.thread, c.index) }

// begin accepts a request and puts it on the thread.
func (c *conversation) begin(text string) string {
	c.t.Helper()
	now, requestID := time.Now(), c.requestID()
	_, _, err := c.bus.Accept(c.t.Context(), record.Accepted{
		Tenant: tenant, RequestID: requestID, ThreadID: c.thread, AgentID: "demo", Owner: "ada", At: now,
		Request: event.AgentRequest{Messages: []event.InputMessage{event.UserText(text)}, ThreadID: c.thread},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.advance(record.Thread{
		ThreadID: c.thread, Owner: "ada", AgentID: "demo", RequestID: requestID, Index: c.index, At: now,
	})
	c.index++
	return requestID
}

func (c *conversation) advance(next record.Thread) {
	c.t.Helper()
	record, err := c.bus.AdvanceThread(c.t.Context(), tenant, next, c.sequence)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sequence = record.Sequence
}

// run claims a request and writes bodies into its log.
func (c *conversation) run(requestID string, bodies ...event.Body) {
	c.t.Helper()
	w, _, err := c.bus.Claim(c.t.Context(), bus.LogID{Tenant: tenant, RequestID: requestID}, "runner", "test")
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Close()
	for _, body := range bodies {
		if err := w.Emit(body); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := w.Flush(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// say runs a request from its acceptance to done.
func (c *conversation) say(text string) string {
	c.t.Helper()
	requestID := c.begin(text)
	c.run(requestID, append(c.talk(text), done(c.thread, "you said "+text))...)
	return requestID
}

// talk is the log of an answer up to its terminal event.
func (c *conversation) talk(text string) []event.Body {
	block := func(s event.Stage) event.Block { return event.Block{MessageID: "msg_1", BlockID: "b0", Stage: s} }
	return []event.Body{
		event.Input{ThreadID: c.thread, AgentID: "demo", Messages: []event.InputMessage{event.UserText(text)}},
		event.Metadata{ThreadID: c.thread, AgentID: "demo"},
		event.Text{Block: block(event.StageStart)},
		event.Text{Block: block(event.StageDelta), Delta: "you said "},
		event.Text{Block: block(event.StageDelta), Delta: text},
		event.Text{Block: block(event.StageStop), Text: "you said " + text},
		event.ToolOutput{ToolCallID: "call_1", Status: event.ToolSuccess, Content: "internal"},
	}
}

func done(thread, text string) event.Body {
	return event.Done{
		MessageID: "msg_1", ThreadID: thread, FinishReason: event.FinishStop, Usage: event.Usage{InputTokens: 2, OutputTokens: 3},
		Content: []event.Content{{Type: event.ContentText, Text: text}},
	}
}

func ref(thread string) historyapi.ThreadRef {
	return historyapi.ThreadRef{Tenant: tenant, ThreadID: thread}
}

func requestRef(requestID string) historyapi.RequestRef {
	return historyapi.RequestRef{Tenant: tenant, RequestID: requestID}
}

func wantCode(t *testing.T, err error, want apierr.Code) {
	t.Helper()
	if got := apierr.CodeOf(err); got != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
}
