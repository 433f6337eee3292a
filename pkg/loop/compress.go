package loop

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/transcript"
)

const (
	// strategy names how a conversation is compressed.
	strategy = "summary"
	// maxSummaryBytes is the longest summary.
	maxSummaryBytes = 64 << 10
	// longPart and shortPart bound what the model reads of one part of a conversation that it summarises.
	longPart  = 16 << 10
	shortPart = 256
)

// Of the tokens at which a conversation is compressed, this part is what its newest contributions keep, and this one is
// the least that a summary must be worth.
const (
	keptPart = 4
	gainPart = 8
)

const summarySystem = "You summarise the conversation of a user with an assistant who works with tools. The assistant " +
	"goes on from your summary alone, so keep what the user wants, in the user's own words where they matter; what was " +
	"decided, done and found out, with names, numbers and identifiers; the plan; and what is still open. Write no more " +
	"than a page, and nothing else."

// compress has the older part of a conversation summarised that outgrows what the model can read. The log stays whole:
// an event says from where on the summary counts, for this request and for later ones.
func (r *run) compress(ctx context.Context) error {
	if err := r.announce(); err != nil {
		return err
	}
	limit := r.Agent.CompressAt
	if backend.TransportOf(r.Backend) != backend.LLM { // an agent with sessions of its own keeps them short by itself
		return nil
	}
	if limit <= 0 || r.whole || len(r.State.Unfinished()) > 0 || r.State.Size() < limit {
		return nil
	}
	older := r.State.Older(limit/keptPart, r.overhead())
	if older.Size < limit/gainPart {
		return nil
	}
	text, usage, err := r.summarise(ctx, older.Messages)
	if ctx.Err() != nil {
		r.unfinished = usage
		return context.Cause(ctx)
	}
	if err != nil {
		r.unfinished = usage
		r.log(ctx, err)
		r.whole = true
		return r.journal.emit(event.Notice{Level: "warning", Message: clean(fmt.Sprintf(
			"the conversation is too long for the model and could not be summarised: %s", apierr.From(err).Message))})
	}
	if err := r.journal.emit(event.Summary{
		Text: text, Kept: older.Kept, Strategy: strategy, Usage: usage,
		OriginalLength: r.State.Size(), CompressedLength: transcript.Tokens(len(text)) + older.KeptSize,
	}); err != nil {
		return err
	}
	return r.announce()
}

// overhead is about how many tokens the model reads besides the conversation: no summary makes them fewer.
func (r *run) overhead() int64 {
	bytes := len(r.Agent.System)
	for _, t := range r.Agent.Tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return transcript.Tokens(bytes)
}

// announce tells clients of a summary, once.
func (r *run) announce() error {
	compressed, fresh := r.State.Unannounced()
	if !fresh {
		return nil
	}
	return r.journal.emit(compressed)
}

// summarise lets the model itself summarise.
func (r *run) summarise(ctx context.Context, older []backend.Message) (string, event.Usage, error) {
	turn := r.newTurn()
	turn.System, turn.Tools, turn.Thinking, turn.Summarise = summarySystem, nil, 0, true
	turn.Messages = []backend.Message{{Role: backend.User, Parts: []backend.Part{
		backend.Text{Text: minutes(older, int(r.Agent.CompressAt)*3) + "\n\nSummarise this conversation."},
	}}}
	var said words
	outcome, err := r.ask(ctx, turn, said.chunk)
	usage := r.priced(outcome)
	text := strings.TrimSpace(clean(said.cut()))
	if err == nil && text == "" {
		err = apierr.New(apierr.AgentError, "the model gave no summary")
	}
	return text, usage, err
}

// words is the text of a turn that is no part of the answer.
type words struct {
	mu   sync.Mutex // the backend may still speak when nobody listens any more
	over bool
	text strings.Builder
}

func (w *words) chunk(c backend.Chunk) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return errCut
	}
	if text, ok := c.(backend.TextDelta); ok && w.text.Len() < maxSummaryBytes {
		w.text.WriteString(head(string(text), maxSummaryBytes-w.text.Len()))
	}
	return nil
}

// cut returns what was said, and hears no more.
func (w *words) cut() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return w.text.String()
}

// minutes is a conversation as text, at most about size bytes: of long parts the start, and of too many the newest.
func minutes(messages []backend.Message, size int) string {
	var parts []string
	for limit := longPart; limit >= shortPart; limit /= 2 {
		parts = parts[:0]
		total := 0
		for _, m := range messages {
			for _, part := range m.Parts {
				line := minute(m.Role, part, limit)
				parts = append(parts, line)
				total += len(line)
			}
		}
		if total <= size {
			return strings.Join(parts, "")
		}
	}
	total, from := 0, len(parts)
	for from > 0 && total+len(parts[from-1]) <= size {
		from--
		total += len(parts[from])
	}
	return strings.Join(parts[from:], "")
}

func minute(role backend.Role, part backend.Part, limit int) string {
	who := "The assistant"
	if role == backend.User {
		who = "The user"
	}
	switch part := part.(type) {
	case backend.Text:
		return fmt.Sprintf("%s said:\n%s\n\n", who, abridged(part.Text, limit))
	case backend.Call:
		return fmt.Sprintf("%s called %s with %s\n\n", who, part.Name, abridged(string(part.Args), limit))
	case backend.Result:
		return fmt.Sprintf("%s gave (%s):\n%s\n\n", part.Name, part.Status, abridged(part.Content, limit))
	case backend.Media:
		return fmt.Sprintf("%s showed %s %s\n\n", who, part.Input.Type, part.Input.Name)
	default: // what it thought is behind it
		return ""
	}
}

func abridged(text string, limit int) string {
	if short := head(text, limit); len(short) < len(text) {
		return short + " […]"
	}
	return text
}
