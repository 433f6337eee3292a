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
	// longPart and shortPart are the most bytes of one part of a conversation that the model reads to summarise it.
	longPart  = 16 << 10
	shortPart = 256
)

// A conversation is compressed when it has limit tokens: its newest limit/keptPart tokens are kept, and a summary must
// save at least limit/gainPart tokens.
const (
	keptPart = 4
	gainPart = 8
)

const summarySystem = "You summarise the conversation of a user with an assistant who works with tools. The assistant " +
	"continues from your summary alone, so keep what the user wants, in the user's own words where they matter; what was " +
	"decided, done and found out, with names, numbers and identifiers; the plan; and what is still open. Write no more " +
	"than a page, and nothing else."

// compress has the model summarise the older part of a conversation that exceeds the model's context. The log keeps all
// events; an event states from which contribution on the summary applies, to this request and later ones.
func (r *run) compress(ctx context.Context) error {
	if err := r.announce(); err != nil {
		return err
	}
	limit := r.Agent.CompressAt
	if backend.TransportOf(r.Backend) != backend.LLM { // an agent with its own sessions compresses them itself
		return nil
	}
	if limit <= 0 || r.incompressible || len(r.State.Unfinished()) > 0 || r.State.Size() < limit {
		return nil
	}
	older := r.State.Older(limit/keptPart, r.overhead())
	if older.Size < limit/gainPart {
		return nil
	}
	text, usage, err := r.summarise(ctx, older.Messages, int(limit)*3)
	if ctx.Err() != nil {
		r.unfinished = usage
		return context.Cause(ctx)
	}
	if err != nil {
		r.unfinished = usage
		r.log(ctx, err)
		r.incompressible = true
		return r.events.emit(event.Notice{Level: "warning", Message: clean(fmt.Sprintf(
			"the conversation is too long for the model and could not be summarised: %s", apierr.From(err).Message))})
	}
	return r.replace(older, text, usage)
}

// overhead estimates the tokens of a request that a summary cannot reduce: instructions and tools.
func (r *run) overhead() int64 {
	bytes := len(r.Agent.System)
	for _, t := range r.Agent.Tools {
		bytes += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return transcript.Tokens(bytes)
}

// announce emits the event of a summary, once.
func (r *run) announce() error {
	compressed, fresh := r.State.Unannounced()
	if !fresh {
		return nil
	}
	return r.events.emit(compressed)
}

// summarise asks the model for a summary of an excerpt of about size bytes.
func (r *run) summarise(ctx context.Context, older []backend.Message, size int) (string, event.Usage, error) {
	turn := r.newTurn()
	turn.System, turn.Tools, turn.Thinking, turn.Effort, turn.Summarise = summarySystem, nil, 0, "", true
	turn.Messages = []backend.Message{{Role: backend.User, Parts: []backend.Part{
		backend.Text{Text: excerpt(older, size) + "\n\nSummarise this conversation."},
	}}}
	var said summaryText
	outcome, err := r.callBackend(ctx, turn, said.chunk)
	usage := r.pricedUsage(turn.Model, outcome)
	text := strings.TrimSpace(clean(said.cut()))
	if err == nil && text == "" {
		err = apierr.New(apierr.AgentError, "the model gave no summary")
	}
	return text, usage, err
}

// summaryText collects the text of a turn that is not part of the answer.
type summaryText struct {
	mu   sync.Mutex // the backend may emit after the turn was cut
	over bool
	text strings.Builder
}

func (w *summaryText) chunk(c backend.Chunk) error {
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

// cut returns the text so far; later chunks are dropped.
func (w *summaryText) cut() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return w.text.String()
}

// excerpt returns a conversation as text of about size bytes: the start of long parts, and the newest parts if there
// are too many.
func excerpt(messages []backend.Message, size int) string {
	var parts []string
	for limit := longPart; limit >= shortPart; limit /= 2 {
		parts = parts[:0]
		total := 0
		for _, m := range messages {
			for _, part := range m.Parts {
				line := excerptPart(m.Role, part, limit)
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

func excerptPart(role backend.Role, part backend.Part, limit int) string {
	who := "The assistant"
	if role == backend.User {
		who = "The user"
	}
	switch part := part.(type) {
	case backend.Text:
		return fmt.Sprintf("%s said:\n%s\n\n", who, abridge(part.Text, limit))
	case backend.Call:
		return fmt.Sprintf("%s called %s with %s\n\n", who, part.Name, abridge(string(part.Args), limit))
	case backend.Result:
		return fmt.Sprintf("%s gave (%s):\n%s\n\n", part.Name, part.Status, abridge(part.Content, limit))
	case backend.Media:
		return fmt.Sprintf("%s showed %s %s\n\n", who, part.Input.Type, part.Input.Name)
	default: // thinking is left out
		return ""
	}
}

func abridge(text string, limit int) string {
	if short := head(text, limit); len(short) < len(text) {
		return short + " […]"
	}
	return text
}
