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

// maxSight bounds the images and files that one turn brings to its model, in bytes: providers take requests of about
// twice that, and every turn of a long thread brings all that it has room for.
const maxSight = media.MaxBytes

// sighted sees the images and files to which the conversation only refers. It is for one session.
type sighted struct {
	send    backend.Send
	objects objects

	mu   sync.Mutex
	seen map[string][]byte // what the last turn saw, by object
}

// withSight is b, whose turns bring those images and files.
func withSight(b backend.Backend, objects objects) backend.Backend {
	return backend.Around(b, func(send backend.Send) backend.Send {
		return (&sighted{send: send, objects: objects}).Send
	})
}

// Send is a [backend.Send].
func (s *sighted) Send(ctx context.Context, turn backend.Turn, emit backend.Emit) (backend.Outcome, error) {
	messages, err := s.see(ctx, turn.Messages)
	if err != nil {
		return backend.Outcome{}, err
	}
	turn.Messages = messages
	return s.send(ctx, turn, emit)
}

// see returns messages with the data of their images and files, the newest first as far as there is room. The messages
// themselves stay as they are.
func (s *sighted) see(ctx context.Context, messages []backend.Message) ([]backend.Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look := look{sighted: s, room: maxSight, kept: map[string][]byte{}}
	messages = slices.Clone(messages)
	for i := range slices.Backward(messages) {
		m := &messages[i]
		if !slices.ContainsFunc(m.Parts, bringsMedia) {
			continue
		}
		m.Parts = slices.Clone(m.Parts)
		for k := range slices.Backward(m.Parts) {
			part, err := look.part(ctx, m.Parts[k])
			if err != nil {
				return nil, err
			}
			m.Parts[k] = part
		}
	}
	s.seen = look.kept
	return messages, nil
}

func bringsMedia(part backend.Part) bool {
	switch part := part.(type) {
	case backend.Media:
		return true
	case backend.Result:
		return len(part.Media) > 0
	default:
		return false
	}
}

// look is one look at a conversation.
type look struct {
	*sighted
	room int64
	kept map[string][]byte // for the next one
}

func (l *look) part(ctx context.Context, part backend.Part) (backend.Part, error) {
	switch part := part.(type) {
	case backend.Media:
		in, err := l.input(ctx, part.Input)
		return backend.Media{Input: in}, err
	case backend.Result:
		part.Media = slices.Clone(part.Media)
		for i := range slices.Backward(part.Media) {
			in, err := l.input(ctx, part.Media[i])
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

// input returns an image or file with its data, or a text with the reason why the model does not see it.
func (l *look) input(ctx context.Context, in event.InputPart) (event.InputPart, error) {
	size := int64(len(in.Data))
	if in.Ref != nil {
		size = in.Ref.Size
	}
	if size > l.room {
		return note(in, "left out, since newer ones fill a turn"), nil
	}
	l.room -= size
	if in.Ref == nil {
		return in, nil
	}
	data, err := l.fetch(ctx, *in.Ref)
	if errors.Is(err, bus.ErrNotFound) {
		return note(in, "no longer stored"), nil
	}
	if err != nil {
		return in, apierr.Wrap(err, apierr.Unavailable, "an image or file of the thread could not be read; try again")
	}
	in.Data, in.Ref = data, nil
	return in, nil
}

func (l *look) fetch(ctx context.Context, ref event.ObjectRef) ([]byte, error) {
	data, known := l.seen[ref.Object]
	if !known {
		var err error
		if data, err = l.objects.data(ctx, ref); err != nil {
			return nil, err
		}
	}
	l.kept[ref.Object] = data
	return data, nil
}

func note(in event.InputPart, why string) event.InputPart {
	return event.InputPart{Type: event.ContentText, Text: "[" + media.Describe(in) + ": " + why + "]"}
}
