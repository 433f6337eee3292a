package chat

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/agentbus/agentbus/cmd/agentbus/internal/screen"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// lines are the lines that the user types.
type lines struct {
	next       chan string // closed at the end of the input
	err        error       // why the input ended early; set before next is closed
	want       chan string // the question to each line
	interrupts <-chan os.Signal
}

// maxLine limits a line of input, in bytes.
const maxLine = 1 << 20

// readLines starts to read, by source, which gets the question and fails with io.EOF at the end. It reads a line only on
// demand. A read from a terminal cannot be cancelled, so the goroutine ends with the input or, if that never ends, with
// the process.
func readLines(source func(question string) (string, error), interrupts <-chan os.Signal) *lines {
	l := &lines{next: make(chan string, 1), want: make(chan string, 1), interrupts: interrupts}
	go func() {
		defer close(l.next)
		for question := range l.want {
			text, err := source(question)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				l.err = err
				return
			}
			l.next <- strings.TrimSpace(asText(text))
		}
	}()
	return l
}

// scan returns a source that reads the lines of in. It shows no questions.
func scan(in io.Reader) func(string) (string, error) {
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, maxLine)
	return func(string) (string, error) {
		if scanner.Scan() {
			return scanner.Text(), nil
		}
		if err := inputError(scanner.Err()); err != nil {
			return "", err
		}
		return "", io.EOF
	}
}

func inputError(err error) error {
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("read the input: a line is longer than %d bytes", maxLine)
	case err != nil:
		return fmt.Errorf("read the input: %w", err)
	default:
		return nil
	}
}

// read waits for a line. The end of the input is io.EOF, an interrupt errQuit.
func (l *lines) read(ctx context.Context, question string) (string, error) {
	select {
	case l.want <- question:
	default: // an earlier read was cancelled, and its line is still to come
	}
	select {
	case text, ok := <-l.next:
		if !ok && l.err != nil {
			return "", l.err
		}
		if !ok {
			return "", io.EOF
		}
		return text, nil
	case <-l.interrupts:
		return "", errQuit
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (c *conversation) ask(ctx context.Context, question string) (string, error) {
	shown := question
	if c.Terminal != nil {
		shown = "" // the terminal shows it
	}
	if err := c.Screen.Ask(shown); err != nil {
		return "", err
	}
	return c.lines.read(ctx, screen.Clean(strings.ReplaceAll(question, "\n", " ")))
}

// answers asks the user for the results of all open actions.
func (c *conversation) answers(ctx context.Context) ([]event.ActionResult, error) {
	var results []event.ActionResult
	for _, action := range c.open {
		result, err := c.answer(ctx, action)
		if err != nil {
			return nil, c.printOpenActions(err)
		}
		result.ActionID = action.ActionID
		results = append(results, result)
	}
	return results, nil
}

func (c *conversation) answer(ctx context.Context, action event.Continuation) (event.ActionResult, error) {
	switch action.Kind {
	case event.ContinueApproval:
		return c.approval(ctx, action.Payload)
	case event.ContinueInput:
		return c.input(ctx, action.Payload)
	case event.ContinueTool:
		return c.toolResult(ctx, action.Payload)
	default:
		text := fmt.Sprintf("this client does not support actions of kind %q", action.Kind)
		return event.ActionResult{Status: event.ActionError, Error: text}, c.Screen.Aside(text)
	}
}

func (c *conversation) approval(ctx context.Context, call event.ContinuationAction) (event.ActionResult, error) {
	text, err := c.ask(ctx, approvalOf(call)+" [y/N, or why not] ")
	if err != nil {
		return event.ActionResult{}, err
	}
	switch strings.ToLower(text) {
	case "y", "yes":
		return event.ActionResult{Status: event.ActionSuccess}, nil
	case "n", "no":
		text = ""
	}
	return event.ActionResult{Status: event.ActionDenied, Error: text}, nil
}

// input asks the user a question. Where a tool has asked it, the user may decline.
func (c *conversation) input(ctx context.Context, call event.ContinuationAction) (event.ActionResult, error) {
	question := askingAgent(call) + call.Prompt() + " "
	if call.AskedIn != "" {
		question += "(or !why not) "
	}
	text, err := c.ask(ctx, question)
	if reason, declined := strings.CutPrefix(text, "!"); declined && call.AskedIn != "" {
		return event.ActionResult{Status: event.ActionDenied, Error: reason}, err
	}
	return event.ActionResult{Status: event.ActionSuccess, Result: quote(text)}, err
}

// approvalOf asks the user whether a call may run.
func approvalOf(call event.ContinuationAction) string {
	if call.Again {
		return fmt.Sprintf("%s%s %s was interrupted, and may have run. Run it again?", askingAgent(call), call.Tool, call.Args)
	}
	return fmt.Sprintf("%sAllow %s %s?", askingAgent(call), call.Tool, call.Args)
}

// askingAgent returns the name of the subagent that asks, "" for the agent itself.
func askingAgent(action event.ContinuationAction) string {
	if action.Agent == nil {
		return ""
	}
	return action.Agent.AgentID + " asks: "
}

// toolResult asks the user for the result of a client tool.
func (c *conversation) toolResult(ctx context.Context, call event.ContinuationAction) (event.ActionResult, error) {
	question := askingAgent(call) +
		fmt.Sprintf("The agent wants you to run %s %s. Its result as JSON (or !what went wrong): ", call.Tool, call.Args)
	for {
		text, err := c.ask(ctx, question)
		if err != nil {
			return event.ActionResult{}, err
		}
		if reason, failed := strings.CutPrefix(text, "!"); failed {
			return event.ActionResult{Status: event.ActionError, Error: reason}, nil
		}
		if value := json.RawMessage(text); jsontext.Value(value).IsValid() {
			return event.ActionResult{Status: event.ActionSuccess, Result: value}, nil
		}
		question = "That is not JSON; put text in quotes, such as \"blue\": "
	}
}

// printOpenActions prints how to answer later, if the input has ended.
func (c *conversation) printOpenActions(err error) error {
	if err != io.EOF { //nolint:errorlint // lines.read returns it bare
		return err
	}
	return fmt.Errorf("the agent waits for an answer, and the input has ended; continue with `agentbus chat %s --thread %s`", c.Agent, c.Thread)
}

// asText replaces invalid UTF-8, which events cannot contain.
func asText(line string) string { return strings.ToValidUTF8(line, "\ufffd") }

// quote returns a text as JSON.
func quote(text string) json.RawMessage {
	value, _ := jsonv2.Marshal(text) // a valid text always has a JSON form
	return value
}
