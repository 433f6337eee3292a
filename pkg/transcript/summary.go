package transcript

import (
	"math"
	"slices"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// heading introduces a summary to the model.
const heading = "The conversation had become too long. This summary stands for its older part:\n\n"

// Estimates of what a model counts.
const (
	bytesPerToken  = 4
	tokensPerMedia = 1500
)

// summary stands for the older part of the conversation.
type summary struct {
	event.Summary
	asked     *entry // the user's last message, where the summary covers it: the model reads it still
	turns     int    // of the model since then that the summary covers
	announced bool
}

// compress drops the contributions that a summary stands for.
func (s *State) compress(b event.Summary) {
	sum := summary{Summary: b}
	if s.summary != nil {
		sum.asked, sum.turns = s.summary.asked, s.summary.turns
	}
	cut := max(0, len(s.entries)-b.Kept)
	for i, e := range s.entries {
		switch {
		case i >= cut && !e.fromUser():
		case i >= cut:
			sum.asked, sum.turns = nil, 0
		case e.fromUser():
			sum.asked, sum.turns = &e, 0
		default:
			sum.turns++
			s.forget(e)
		}
	}
	s.entries = slices.Clone(s.entries[cut:])
	for _, kept := range s.agents {
		kept.known = max(0, kept.known-cut)
	}
	s.summary, s.spoken = &sum, 0
	s.request.stalls, s.request.usage = 0, s.request.usage.Add(b.Usage)
}

// forget drops the outputs of a turn's calls.
func (s *State) forget(e entry) {
	for _, b := range e.blocks {
		delete(s.outputs, b.CallID)
	}
}

// messages is what the model reads in place of the contributions that the summary covers.
func (s *summary) messages() []backend.Message {
	if s == nil {
		return nil
	}
	messages := []backend.Message{{Role: backend.User, Parts: []backend.Part{backend.Text{Text: heading + s.Text}}}}
	if s.asked == nil {
		return messages
	}
	return append(messages, backend.Message{Role: backend.User, Parts: s.asked.user})
}

// Summarised counts the turns of the model since the user spoke that a summary stands for.
func (s *State) Summarised() int {
	if s.summary == nil || slices.ContainsFunc(s.entries, entry.fromUser) {
		return 0
	}
	return s.summary.turns
}

// Unannounced returns the event of a summary that clients have not received yet.
func (s *State) Unannounced() (event.ContextCompressed, bool) {
	if s.summary == nil || s.summary.announced {
		return event.ContextCompressed{}, false
	}
	b := s.summary.Summary
	ratio := float64(b.CompressedLength) / float64(max(b.OriginalLength, 1))
	return event.ContextCompressed{
		OriginalLength: b.OriginalLength, CompressedLength: b.CompressedLength,
		CompressionRatio: math.Round(ratio*1e4) / 1e4, Strategy: b.Strategy,
	}, true
}

// Older is the part of a conversation that a summary may stand for.
type Older struct {
	Messages []backend.Message
	Size     int64 // of what the summary would replace
	Kept     int   // how many of the newest contributions are not part of it
	KeptSize int64
}

// Size estimates the tokens that the model reads: the larger of the model's count of the last turn and an estimate of the
// messages.
func (s *State) Size() int64 { return max(s.spoken, s.estimate()) }

// Older splits the conversation: the newest contributions that have room in keep tokens stay as they are. Overhead is how many
// of the tokens that the model reads are not of the conversation.
func (s *State) Older(keep, overhead int64) Older {
	estimate := max(s.estimate(), 1)
	scale := float64(max(s.Size()-overhead, estimate)) / float64(estimate)
	var older Older
	cut, asked := len(s.entries), -1
	for i, e := range slices.Backward(s.entries) {
		size := int64(float64(s.size(e)) * scale)
		if cut == i+1 && older.KeptSize+size <= keep {
			cut, older.KeptSize = i, older.KeptSize+size
			continue
		}
		if asked < 0 && e.fromUser() {
			asked = i // stays, whatever the summary says
			continue
		}
		older.Size += size
	}
	older.Kept = len(s.entries) - cut
	older.Messages = append(s.summary.messages(), s.contributions(s.entries[:cut])...)
	return older
}

func (s *State) estimate() int64 {
	size := tokens(s.summary.messages())
	for _, e := range s.entries {
		size += s.size(e)
	}
	return size
}

func (s *State) size(e entry) int64 { return tokens(s.contributions([]entry{e})) }

// tokens is about how many tokens messages have.
func tokens(messages []backend.Message) int64 {
	var bytes, media int
	for _, m := range messages {
		for _, part := range m.Parts {
			switch part := part.(type) {
			case backend.Text:
				bytes += len(part.Text)
			case backend.Thinking:
				bytes += len(part.Text)
			case backend.Call:
				bytes += len(part.Name) + len(part.Args)
			case backend.Result:
				bytes += len(part.Content)
			case backend.Media:
				media++
			}
		}
	}
	return Tokens(bytes) + int64(media*tokensPerMedia)
}

// Tokens is about how many tokens a text of so many bytes has.
func Tokens(bytes int) int64 { return int64(bytes+bytesPerToken-1) / bytesPerToken }
