// Package chat is `agentbus chat`: a conversation with an agent at a terminal. It shows the events, and asks the user
// for approvals, answers, and the results of client tools.
package chat

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/prompt"
	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
)

// Options are the settings of a conversation.
type Options struct {
	Client     *client.Client
	Agent      string
	Thread     string // "" = a new thread
	Message    string // send only this message; "" = a conversation
	Model      string // "" = the agent's default
	In         io.Reader
	Terminal   *prompt.Terminal // reads the input instead of In, with editing; nil = In is not a terminal
	Screen     *screen.Screen
	Interrupts <-chan os.Signal // the first aborts the request, the next ends the conversation
}

// errQuit ends the conversation because the user quits.
var errQuit = errors.New("quit")

// conversation is the conversation on one thread.
type conversation struct {
	Options
	lines *lines
	open  []event.Continuation // the open actions
}

// Run runs a conversation until the input ends or the user quits. With a Message it returns after the answer, with
// screen.ErrTold if that was an error.
func Run(ctx context.Context, o Options) error {
	source := scan(o.In)
	if o.Terminal != nil {
		source = o.Terminal.Read
		defer o.Terminal.Close()
	}
	c := &conversation{Options: o, lines: readLines(source, o.Interrupts)}
	err := c.run(ctx)
	if c.Thread != "" && o.Message == "" {
		err = errors.Join(err, c.Screen.Aside("thread "+c.Thread+"; continue it with `agentbus chat "+c.Agent+" --thread "+c.Thread+"`"))
	}
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
		return c.Screen.Result()
	}
	if err := c.showThread(ctx); err != nil {
		return err
	}
	for {
		text, err := c.ask(ctx, "> ")
		if err != nil {
			return err
		}
		switch text {
		case "":
			continue
		case "/help":
			err = c.Screen.Aside(help)
		case "/quit":
			return errQuit
		default:
			err = c.say(ctx, text)
		}
		if f, ok := errors.AsType[*apierr.Error](err); ok {
			err = c.Screen.Aside("error: " + f.Message + " (" + string(f.Code) + ")") // the user may try again
		}
		if err != nil {
			return err
		}
	}
}

// help is the answer to /help.
const help = `/help  shows this
/quit  ends the conversation; so does Ctrl-D

A line that ends with \ continues on the next line, and pasted lines are one message. The arrow keys edit the line and return
earlier ones. Ctrl-C aborts a response. All other lines are messages to the agent, also those that begin with /.`

// showThread shows the last request of an existing thread, to its end if it still runs.
func (c *conversation) showThread(ctx context.Context) error {
	if c.Thread == "" {
		if err := c.checkAgent(ctx); err != nil {
			return err
		}
		return c.Screen.Aside("talking to " + c.Agent + "; /help lists what you can type; Ctrl-C stops the answer, and then the conversation")
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
	return c.sendResults(ctx)
}

// checkAgent returns an error for an agent that does not exist: otherwise the user reads it only after the first message.
func (c *conversation) checkAgent(ctx context.Context) error {
	agents, err := c.Client.Agents(ctx)
	if err != nil || slices.ContainsFunc(agents, func(a client.Agent) bool { return a.Name == c.Agent }) {
		return err
	}
	return apierr.New(apierr.AgentNotFound, "agent %.64q does not exist; GET /v1/agents lists the agents", c.Agent)
}

// say sends a message, and then the results of actions until no action is open.
func (c *conversation) say(ctx context.Context, text string) error {
	c.open = nil // a new message closes open actions
	if err := c.send(ctx, event.AgentRequest{Messages: []event.InputMessage{event.UserText(text)}}); err != nil {
		return err
	}
	return c.sendResults(ctx)
}

// sendResults sends the results of the open actions.
func (c *conversation) sendResults(ctx context.Context) error {
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

// watch shows the events of a request. The first interrupt aborts the request and continues to show its events; the
// second one quits.
func (c *conversation) watch(ctx context.Context, open func(context.Context, func(string)) iter.Seq2[event.Event, error]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	accepted := make(chan string, 1)
	var guard sync.WaitGroup
	defer guard.Wait()
	defer cancel(nil) // before the deferred wait
	guard.Go(func() { c.watchInterrupts(ctx, accepted, cancel) })
	progress := newProgress(c.Screen)
	guard.Go(func() { progress.run(ctx) })
	for e, err := range open(ctx, func(requestID string) { accepted <- requestID }) {
		if err != nil {
			return err
		}
		c.note(e.Body)
		if err := progress.show(e); err != nil {
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

// abortTime is the timeout of an abort.
const abortTime = 10 * time.Second

// watchInterrupts waits for interrupts until ctx is done.
func (c *conversation) watchInterrupts(ctx context.Context, accepted <-chan string, quit context.CancelCauseFunc) {
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
