package check

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// prescribed is a turn that a script prescribes: what the agent says and calls before it reads results.
type prescribed struct {
	blocks []event.Content // text, thinking and tool_use, without ids
	gated  bool            // a client must act before the calls have results
}

// waits reports whether a request may end at the turn because a client must act: for its calls, or for an agent that it calls.
func (p prescribed) waits() bool {
	return p.gated || slices.ContainsFunc(p.blocks, func(c event.Content) bool { return strings.HasPrefix(c.Name, "agent__") })
}

// turnsOf returns the turns of a script, or false for a line that the checker does not support. It parses the language
// of pkg/backend/scripted independently, because that package is under test.
func turnsOf(script string) ([]prescribed, bool) {
	turns := []prescribed{{}}
	last := func() *prescribed { return &turns[len(turns)-1] }
	for text := range strings.Lines(script) {
		text = strings.TrimSpace(text)
		name, rest, _ := strings.Cut(text, " ")
		rest = strings.TrimSpace(rest)
		ok := true
		switch name {
		case "", "/sleep":
		case "/say":
			last().say(event.ContentText, rest)
		case "/think":
			last().say(event.ContentThinking, rest)
		case "/stream":
			ok = last().stream(rest)
		case "/tool", "/tools":
			ok = last().call(rest)
			turns = append(turns, prescribed{})
		case "/approve", "/client-tool":
			ok = last().call(rest)
			last().gated = true
			turns = append(turns, prescribed{})
		case "/ask":
			ok = last().ask(rest)
			last().gated = true
			turns = append(turns, prescribed{})
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
	}
	return turns, true
}

// say adds a line to the block of its kind that came last, or makes the next one.
func (p *prescribed) say(kind, text string) {
	if n := len(p.blocks); n > 0 && p.blocks[n-1].Type == kind {
		text = "\n" + text
	} else {
		p.blocks = append(p.blocks, event.Content{Type: kind})
	}
	c := &p.blocks[len(p.blocks)-1]
	if kind == event.ContentThinking {
		c.Thinking += text
	} else {
		c.Text += text
	}
}

// stream adds "N RATE [BYTES]": N pieces, each its number and filler.
func (p *prescribed) stream(rest string) bool {
	const filler = "the quick brown fox jumps over the lazy dog and "
	words := append(strings.Fields(rest), "20")
	if len(words) < 3 {
		return false
	}
	n, err := strconv.Atoi(words[0])
	size, errSize := strconv.Atoi(words[2])
	if err != nil || errSize != nil || size < 2 {
		return false
	}
	var all strings.Builder
	for i := range n {
		blockEvent := strconv.Itoa(i) + " "
		for len(blockEvent) < size {
			blockEvent += filler
		}
		all.WriteString(blockEvent[:size-1] + " ")
	}
	p.say(event.ContentText, all.String())
	return true
}

// call adds "NAME {json}; NAME {json}".
func (p *prescribed) call(rest string) bool {
	for rest != "" {
		end := strings.IndexAny(rest+";", " ;{")
		c := event.Content{Type: event.ContentToolUse, Name: rest[:end], Args: json.RawMessage("{}")}
		rest = strings.TrimSpace(rest[end:])
		if strings.HasPrefix(rest, "{") {
			dec := jsontext.NewDecoder(strings.NewReader(rest))
			args, err := dec.ReadValue()
			if err != nil {
				return false
			}
			c.Args, rest = json.RawMessage(args.Clone()), strings.TrimSpace(rest[dec.InputOffset():])
		}
		p.blocks = append(p.blocks, c)
		rest = strings.TrimSpace(strings.TrimPrefix(rest, ";"))
	}
	return true
}

func (p *prescribed) ask(question string) bool {
	args, err := jsonv2.Marshal(map[string]string{"question": question})
	p.blocks = append(p.blocks, event.Content{Type: event.ContentToolUse, Name: "ask_user", Args: args})
	return err == nil
}

// same reports whether a block says what a script prescribes; a part of a text is enough where cut says so.
func same(got, want event.Content, cut bool) bool {
	if got.Type != want.Type {
		return false
	}
	if got.Type == event.ContentToolUse {
		return got.Name == want.Name && canonical(got.Args) == canonical(want.Args)
	}
	said, whole := got.Text+got.Thinking, want.Text+want.Thinking
	return said == whole || cut && strings.HasPrefix(whole, said)
}

// brief is a block in a few words, for reports.
func brief(c event.Content) string {
	if c.Type == event.ContentToolUse {
		return "the call " + c.Name + " " + string(c.Args)
	}
	text := c.Text + c.Thinking
	if len(text) > 100 {
		text = text[:60] + " … " + text[len(text)-30:]
	}
	return c.Type + " " + strconv.Quote(text)
}
