// Package screen shows events to a person at a terminal, or to a program as lines of JSON.
package screen

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
)

// ErrShown is returned for a failure that the screen has shown already.
var ErrShown = errors.New("the request did not end well")

// Options describe the output.
type Options struct {
	Colour bool // a terminal that understands ANSI
	JSON   bool // a program
	Echo   bool // the user's input appears on the screen too, with its line ends
}

// Screen shows one request after another. Text of the agent goes to out and everything else to side, so that a pipe
// gets only the answer. Text from outside cannot control the terminal: see [Clean]. A screen is not safe for concurrent
// use.
type Screen struct {
	out, side io.Writer
	options   Options

	block    string     // the open block whose text is on the screen
	last     io.Writer  // the writer of the last text
	midLine  bool       // the last text did not end its line
	terminal event.Body // of the newest request
	waiting  bool       // the text of Wait is on the screen
}

// New returns a screen.
func New(out, side io.Writer, o Options) *Screen { return &Screen{out: out, side: side, options: o} }

// Show shows an event.
func (s *Screen) Show(e event.Event) error {
	if event.IsTerminal(e.Body) {
		s.terminal = e.Body
	}
	if s.options.JSON {
		line, err := event.Encode(e)
		if err != nil {
			return err
		}
		return write(s.out, append(line, '\n'))
	}
	switch body := e.Body.(type) {
	case event.Text:
		return s.stage(s.out, "", body.Block, body.Delta, body.Text)
	case event.Thinking:
		return s.stage(s.side, dim, body.Block, body.Delta, body.Thinking)
	case event.FinalAnswer:
		return s.stage(s.out, "", body.Block, body.Delta, body.Content)
	default:
		if text := aside(body); text != "" {
			return s.Aside(text)
		}
		return nil
	}
}

// stage shows a part of a block. If deltas of a block were missed, the whole block is shown at its stop.
func (s *Screen) stage(to io.Writer, style string, b event.Block, delta, whole string) error {
	switch b.Stage {
	case event.StageStart:
		return s.endLine()
	case event.StageDelta:
		s.block = b.BlockID
		return s.text(to, style, delta)
	case event.StageStop:
		return s.stop(to, style, b, whole)
	default:
		return nil
	}
}

func (s *Screen) stop(to io.Writer, style string, b event.Block, whole string) error {
	shown := s.block == b.BlockID
	s.block = ""
	if b.Discarded {
		return s.Aside("(that does not count: it is being said again)")
	}
	if !shown {
		if err := s.text(to, style, whole); err != nil {
			return err
		}
	}
	return s.endLine()
}

// aside returns a line about an event without text, "" for events that users do not need.
func aside(body event.Body) string {
	switch b := body.(type) {
	case event.ToolCall:
		if b.Stage == event.StageStop && !b.Discarded {
			return "→ " + b.Tool + " " + Short(string(b.Args))
		}
	case event.ToolResult:
		return result(b)
	case event.Notice:
		return b.Level + ": " + b.Message
	case event.Plan:
		return plan(b)
	case event.Input:
		return said(b)
	case event.Error:
		return fmt.Sprintf("error: %s (%s)", b.Message, b.Code)
	case event.Aborted:
		return "stopped"
	case event.Done:
		return ending(b.FinishReason)
	}
	return ""
}

func result(b event.ToolResult) string {
	switch {
	case b.Stage == event.StageDelta:
		return "  " + strings.TrimRight(b.Delta, "\n")
	case b.Stage == event.StageStop && b.Status == event.ToolSuccess:
		return "← " + b.Summary
	case b.Stage == event.StageStop:
		return "← " + string(b.Status) + ": " + b.Summary
	}
	return ""
}

func plan(b event.Plan) string {
	if b.Stage == event.StageStop {
		return b.Summary
	}
	lines := []string{"plan:"}
	for _, step := range b.Steps {
		mark := "[ ] "
		if step.Done {
			mark = "[x] "
		}
		lines = append(lines, "  "+mark+step.Content)
	}
	return strings.Join(lines, "\n")
}

func said(b event.Input) string {
	var lines []string
	for _, m := range b.Messages {
		lines = append(lines, "> "+m.Content.Text())
	}
	return strings.Join(lines, "\n")
}

func ending(why event.FinishReason) string {
	switch why {
	case event.FinishStop, event.FinishActionRequired:
		return ""
	default:
		return "the answer ends here: " + string(why)
	}
}

// Message shows a message of a thread's history.
func (s *Screen) Message(m historyapi.Message) error {
	if m.Role == event.RoleUser {
		return s.Aside("> " + m.Input.Text())
	}
	for _, c := range m.Content {
		var err error
		switch c.Type {
		case event.ContentText:
			err = errors.Join(s.text(s.out, "", c.Text), s.endLine())
		case event.ContentThinking:
			err = errors.Join(s.text(s.side, dim, c.Thinking), s.endLine())
		case event.ContentToolUse:
			err = s.Aside("→ " + c.Name + " " + Short(string(c.Args)))
		case event.ContentToolResult:
			err = s.Aside("← " + c.Summary)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Result returns nil if the newest request succeeded, otherwise ErrTold.
func (s *Screen) Result() error {
	switch s.terminal.(type) {
	case event.Error, event.Aborted:
		return ErrShown
	default:
		return nil
	}
}

// Fail shows err after ending the open line.
func (s *Screen) Fail(err error) error { return errors.Join(s.endLine(), err) }
