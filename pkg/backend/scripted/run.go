package scripted

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// kind says what a block is made of.
type kind int

const (
	none kind = iota
	text
	thinking
)

// player runs the commands of one turn.
type player struct {
	emit    backend.Emit
	spoke   kind // of the block that is open
	calls   int
	words   int64 // put out so far
	counted *event.Usage
}

// segment returns the commands of turn number n of a script: each turn ends with the line that calls tools.
func segment(commands []Command, n int) []Command {
	start := 0
	for i, c := range commands {
		if _, ends := c.(Use); !ends {
			continue
		}
		if n == 0 {
			return commands[start : i+1]
		}
		n--
		start = i + 1
	}
	if n > 0 {
		return nil
	}
	return commands[start:]
}

// play runs commands until the turn is over.
func (p *player) play(ctx context.Context, commands []Command) error {
	for _, c := range commands {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.do(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) do(ctx context.Context, c Command) error {
	switch c := c.(type) {
	case Say:
		return p.speak(ctx, text, c.Text)
	case Think:
		return p.speak(ctx, thinking, c.Text)
	case Stream:
		return p.stream(ctx, c)
	case Use:
		return p.use(ctx, c)
	case Report:
		return p.use(ctx, Use{Calls: []Call{{Name: FinalAnswer, Args: c.Args}}})
	case Emit:
		return p.emit(backend.Custom{Type: c.Event.Type, Data: c.Event.Data})
	case Sleep:
		return wait(ctx, c.For)
	case Fail:
		f := apierr.New(c.Code, "line %d of the script asked for this failure", c.Line)
		f.Retryable = c.Retryable
		return f
	case Count:
		p.count(c.Usage)
	}
	return nil
}

// speak emits a line word by word. Chunks of one kind join one block, so a second line of it starts with a line break.
func (p *player) speak(ctx context.Context, k kind, line string) error {
	if p.spoke == k {
		line = "\n" + line
	}
	p.spoke = k
	for _, word := range strings.SplitAfter(line, " ") {
		if err := p.put(ctx, k, word); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) put(ctx context.Context, k kind, delta string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if delta == "" {
		return nil
	}
	p.words += words(delta)
	if k == thinking {
		return p.emit(backend.ThinkingDelta(delta))
	}
	return p.emit(backend.TextDelta(delta))
}

// stream keeps to the schedule of its first delta: a slow reader does not lower the rate for good.
func (p *player) stream(ctx context.Context, s Stream) error {
	if p.spoke == text {
		if err := p.put(ctx, text, "\n"); err != nil {
			return err
		}
	}
	p.spoke = text
	start := time.Now()
	for i := range s.Deltas {
		if s.Rate > 0 {
			due := time.Duration(float64(i) * float64(time.Second) / s.Rate)
			if err := wait(ctx, due-time.Since(start)); err != nil {
				return err
			}
		}
		if err := p.put(ctx, text, deltaText(i, s.Bytes)); err != nil {
			return err
		}
	}
	return nil
}

const filler = "the quick brown fox jumps over the lazy dog and "

// deltaText is delta number i of a stream: its number, then filler, exactly size bytes in all.
func deltaText(i, size int) string {
	head := strconv.Itoa(i) + " "
	body := head + strings.Repeat(filler, max(0, size-len(head))/len(filler)+1)
	if size == 1 {
		return body[:1]
	}
	return body[:size-1] + " "
}

func (p *player) use(ctx context.Context, u Use) error {
	p.spoke = none
	for _, call := range u.Calls {
		index := p.calls
		p.calls++
		if err := p.emit(backend.CallStart{Index: index, Name: call.Name, Gate: u.Gate}); err != nil {
			return err
		}
		for _, piece := range pieces(string(call.Args)) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.emit(backend.CallDelta{Index: index, Args: piece}); err != nil {
				return err
			}
		}
		p.words += words(string(call.Args))
	}
	return nil
}

// pieceBytes is about how much of a call's arguments comes at once, so that demos show them grow.
const pieceBytes = 16

// pieces cuts s without cutting a character.
func pieces(s string) []string {
	var cut []string
	for len(s) > pieceBytes {
		end := pieceBytes
		for !utf8.RuneStart(s[end]) {
			end--
		}
		cut = append(cut, s[:end])
		s = s[end:]
	}
	return append(cut, s)
}

func (p *player) count(u event.Usage) {
	if p.counted == nil {
		p.counted = new(event.Usage)
	}
	*p.counted = p.counted.Add(u)
}

// usage is what the script counted, or else words for tokens.
func (p *player) usage(turn backend.Turn) event.Usage {
	if p.counted != nil {
		return *p.counted
	}
	return event.Usage{InputTokens: inputWords(turn), OutputTokens: p.words}
}

func inputWords(turn backend.Turn) int64 {
	n := words(turn.System)
	for _, m := range turn.Messages {
		for _, part := range m.Parts {
			switch part := part.(type) {
			case backend.Text:
				n += words(part.Text)
			case backend.Thinking:
				n += words(part.Text)
			case backend.Call:
				n += words(string(part.Args))
			case backend.Result:
				n += words(part.Content)
			}
		}
	}
	return n
}

func words(s string) (count int64) {
	for range strings.FieldsSeq(s) {
		count++
	}
	return count
}

// wait sleeps for d, and shorter when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
