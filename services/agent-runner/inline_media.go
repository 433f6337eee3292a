package agentrunner

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
)

// maxTurnMedia bounds the images and files in one turn's messages, in bytes. Providers accept requests of about twice
// that size, and each turn of a long thread sends as many as fit.
const maxTurnMedia = media.MaxBytes

// mediaInliner replaces references to stored images and files by their data. It serves one session.
type mediaInliner struct {
	send    backend.Send
	objects objects

	mu    sync.Mutex
	cache map[string][]byte // the data of the last turn, by object
}

// withInlineMedia wraps b: its turns contain the data of the images and files that the messages refer to.
func withInlineMedia(b backend.Backend, objects objects) backend.Backend {
	return backend.Around(b, func(send backend.Send) backend.Send {
		return (&mediaInliner{send: send, objects: objects}).Send
	})
}

// Send is a [backend.Send].
func (s *mediaInliner) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	messages, err := s.inline(ctx, turn.Messages)
	if err != nil {
		return backend.Outcome{}, err
	}
	turn.Messages = messages
	return s.send(ctx, turn, emit)
}

// inline returns a copy of messages with the data of their images and files, the newest first, up to maxTurnMedia.
func (s *mediaInliner) inline(ctx context.Context, messages []backend.Message) ([]backend.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pass := inlinePass{mediaInliner: s, budget: maxTurnMedia, cache: map[string][]byte{}}
	messages = slices.Clone(messages)
	for i := range slices.Backward(messages) {
		m := &messages[i]
		if !slices.ContainsFunc(m.Parts, hasMedia) {
			continue
		}
		m.Parts = slices.Clone(m.Parts)
		for k := range slices.Backward(m.Parts) {
			part, err := pass.part(ctx, m.Parts[k])
			if err != nil {
				return nil, err
			}
			m.Parts[k] = part
		}
	}
	s.cache = pass.cache
	return messages, nil
}

func hasMedia(part backend.Part) bool {
	switch part := part.(type) {
	case backend.Media:
		return true
	case backend.Result:
		return len(part.Media) > 0
	default:
		return false
	}
}

// inlinePass processes the messages of one turn.
type inlinePass struct {
	*mediaInliner
	budget int64
	cache  map[string][]byte // for the next turn
}

func (p *inlinePass) part(ctx context.Context, part backend.Part) (backend.Part, error) {
	switch part := part.(type) {
	case backend.Media:
		in, err := p.input(ctx, part.Input)
		return backend.Media{Input: in}, err
	case backend.Result:
		part.Media = slices.Clone(part.Media)
		for i := range slices.Backward(part.Media) {
			in, err := p.input(ctx, part.Media[i])
			if err != nil {
				return nil, err
			}
			part.Media[i] = in
		}
		return part, nil
	default:
		return part, nil
	}
}

// input returns an image or file with its data, or a text with the reason why the model does not get it.
func (p *inlinePass) input(ctx context.Context, in event.InputPart) (event.InputPart, error) {
	size := int64(len(in.Data))
	if in.Ref != nil {
		size = in.Ref.Size
	}
	if size > p.budget {
		return omitted(in, "left out, because newer ones fill the turn"), nil
	}
	p.budget -= size
	if in.Ref == nil {
		return in, nil
	}
	data, err := p.fetch(ctx, *in.Ref)
	if errors.Is(err, bus.ErrNotFound) {
		return omitted(in, "no longer stored"), nil
	}
	if err != nil {
		return in, apierr.Wrap(err, apierr.Unavailable, "an image or file of the thread could not be read; try again")
	}
	in.Data, in.Ref = data, nil
	return in, nil
}

func (p *inlinePass) fetch(ctx context.Context, ref event.ObjectRef) ([]byte, error) {
	data, known := p.cache[ref.Object]
	if !known {
		var err error
		if data, err = p.objects.data(ctx, ref); err != nil {
			return nil, err
		}
	}
	p.cache[ref.Object] = data
	return data, nil
}

func omitted(in event.InputPart, why string) event.InputPart {
	return event.InputPart{Type: event.ContentText, Text: "[" + media.Describe(in) + ": " + why + "]"}
}
