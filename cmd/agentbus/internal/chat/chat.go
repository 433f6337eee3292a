// Package chat is `agentbus chat`: a conversation with an agent at a terminal. It shows what the agent does, and asks
// the person whatever the agent asks for: approvals, answers, and the results of tools that run on the client's side.
package chat

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"sync"
	"time"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
)

// Options say who talks to whom.
type Options struct {
	Client     *client.Client
	Agent      string
	Thread     string // "" = a new one
	Message    string // say this alone; "" = a conversation
	Model      string // "" = the agent's own
	In         io.Reader
	Screen     *screen.Screen
	Interrupts <-chan os.Signal // the first stops the request, the next the conversation
}

// errQuit ends the conversation by the person's wish.
var errQuit = errors.New("quit")

// conversation is one thread.
type conversation struct {
	Options
	lines *lines
	open  []event.Continuation // what the agent asked for last
}

// Run talks until the input ends or the person quits. With a Message it returns after the answer: screen.ErrTold when
// that was an error.
func Run(ctx context.Context, o Options) error {
	c := &conversation{Options: o, lines: readLines(o.In, o.Interrupts)}
	err := c.run(ctx)
	if errors.Is(err, errQuit) || errors.Is(err, io.EOF) && o.Message == "" {
		return c.Screen.Fail(nil)
	}
	return c.Screen.Fail(err)
}

func (c *conversation) run(ctx context.Context) error {
	if c.Message != "" {
		if err := c.say(ctx, asText(c.Message)); err != nil {
			return err
		}
		return c.Screen.Verdict()
	}
	if err := c.greet(ctx); err != nil {
		return err
	}
	for {
		text, err := c.ask(ctx, "> ")
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		err = c.say(ctx, text)
		if f, ok := errors.AsType[*apierr.Error](err); ok {
			err = c.Screen.Aside("error: " + f.Message + " (" + string(f.Code) + ")") // the person may try again
		}
		if err != nil {
			return err
		}
	}
}

// greet shows where a thread that goes on stands: its last request, to the end if it still runs.
func (c *conversation) greet(ctx context.Context) error {
	if c.Thread == "" {
		return c.Screen.Aside("talking to " + c.Agent + "; Ctrl-C stops the answer, and then the conversation")
	}
	thread, err := c.Client.Thread(ctx, c.Thread)
	if err != nil {
		return err
	}
	err = c.watch(ctx, func(ctx context.Context, accepted func(string)) iter.Seq2[event.Event, error] {
		accepted(thread.LastRequestID)
		return c.Client.Follow(ctx, thread.LastRequestID, "", string(event.NameInput))
	})
	if err != nil {
		return err
	}
	return c.act(ctx)
}

// say sends a message, and then whatever the agent asks for, until it has nothing more to ask.
func (c *conversation) say(ctx context.Context, text string) error {
	c.open = nil // a new message supersedes what was asked for
	if err := c.send(ctx, event.AgentRequest{Messages: []event.InputMessage{event.UserText(text)}}); err != nil {
		return err
	}
	return c.act(ctx)
}

// act answers what the agent asks for.
func (c *conversation) act(ctx context.Context) error {
	for len(c.open) > 0 {
		results, err := c.answers(ctx)
		if err != nil {
			return err
		}
		c.open = nil
		request := event.AgentRequest{Messages: []event.InputMessage{}}
		request.Context.ActionResults = results
		if err := c.send(ctx, request); err != nil {
			return err
		}
	}
	return nil
}

func (c *conversation) send(ctx context.Context, request event.AgentRequest) error {
	request.ThreadID, request.Context.Model = c.Thread, c.Model
	return c.watch(ctx, func(ctx context.Context, accepted func(string)) iter.Seq2[event.Event, error] {
		return c.Client.Stream(ctx, c.Agent, request, client.StreamOptions{
			Include:  []string{string(event.NamePlan), string(event.NameNotice), string(event.NameFinalAnswer)},
			Accepted: func(requestID, _ string) { accepted(requestID) },
		})
	})
}

// watch shows the events of a request. An interrupt asks for its end and goes on watching; a second one quits.
func (c *conversation) watch(ctx context.Context, open func(context.Context, func(string)) iter.Seq2[event.Event, error]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	accepted := make(chan string, 1)
	var guard sync.WaitGroup
	defer guard.Wait()
	defer cancel(nil) // before the wait
	guard.Go(func() { c.guard(ctx, accepted, cancel) })
	for e, err := range open(ctx, func(requestID string) { accepted <- requestID }) {
		if err != nil {
			return err
		}
		c.note(e.Body)
		if err := c.Screen.Show(e); err != nil {
			return err
		}
	}
	return nil
}

func (c *conversation) note(body event.Body) {
	switch b := body.(type) {
	case event.Metadata:
		c.Thread = b.ThreadID
	case event.Continuation:
		c.open = append(c.open, b)
	case event.Error, event.Aborted:
		c.open = nil
	}
}

// abortTime bounds the call that asks for the end of a request.
const abortTime = 10 * time.Second

// guard waits for interrupts until ctx is done.
func (c *conversation) guard(ctx context.Context, accepted <-chan string, quit context.CancelCauseFunc) {
	select {
	case <-c.Interrupts:
	case <-ctx.Done():
		return
	}
	select {
	case requestID := <-accepted:
		call, cancel := context.WithTimeout(ctx, abortTime)
		err := c.Client.Abort(call, requestID)
		cancel()
		if err != nil && apierr.CodeOf(err) != apierr.RequestFinished {
			quit(err)
			return
		}
	case <-c.Interrupts:
		quit(errQuit)
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-c.Interrupts:
		quit(errQuit)
	case <-ctx.Done():
	}
}
