package agentrunner_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// kept stores an image on the stack's thread and refers to it.
func (s *stack) kept(name string, size int) event.InputPart {
	s.t.Helper()
	data := bytes.Repeat([]byte(name[:1]), size)
	ref, err := s.bus.PutObject(s.t.Context(), tenant, "thr_1", data)
	if err != nil {
		s.t.Fatal(err)
	}
	return event.InputPart{Type: "image", MediaType: "image/png", Name: name, Ref: &ref}
}

func shows(parts ...event.InputPart) event.AgentRequest {
	return event.AgentRequest{Messages: []event.InputMessage{{Role: event.RoleUser, Content: parts}}}
}

// seen returns what a model gets of each image or file of a turn.
func seen(turn backend.Turn) []string {
	var all []string
	for _, m := range turn.Messages {
		for _, part := range m.Parts {
			media, ok := part.(backend.Media)
			if !ok {
				continue
			}
			in := media.Input
			if in.Type == event.ContentText {
				all = append(all, in.Text)
				continue
			}
			all = append(all, fmt.Sprintf("%s %d bytes of %q", in.Name, len(in.Data), in.Data[:1]))
		}
	}
	return all
}

func TestModelReceivesReferencedMedia(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	turns := make(chan []string, 1)
	s.backend = backendFunc(func(_ context.Context, turn backend.Turn, _ backend.Emit) (backend.Outcome, error) {
		turns <- seen(turn)
		return backend.Outcome{Finish: event.FinishStop}, nil
	})
	s.runner("r1")
	gone := event.ObjectRef{Object: "none", Size: 7, SHA256: "none"}
	inline := event.InputPart{Type: "image", MediaType: "image/png", Name: "inline.png", Data: []byte("i")}
	steps := []struct {
		what  string
		shows []event.InputPart
		sees  []string
	}{
		{"data in the request, and outside it", []event.InputPart{inline, s.kept("a.png", 1<<20)},
			[]string{`inline.png 1 bytes of "i"`, `a.png 1048576 bytes of "a"`}},
		{"what is no longer there", []event.InputPart{{Type: "image", MediaType: "image/png", Name: "b.png", Ref: &gone}},
			[]string{`inline.png 1 bytes of "i"`, `a.png 1048576 bytes of "a"`, `[image "b.png" (image/png, 7 bytes): no longer stored]`}},
		{"so much that older ones have no room", []event.InputPart{s.kept("c.png", 10<<20), s.kept("d.png", 10<<20)},
			[]string{
				`inline.png 1 bytes of "i"`, `a.png 1048576 bytes of "a"`, `[image "b.png" (image/png, 7 bytes): no longer stored]`,
				`[image "c.png" (image/png, 10485760 bytes): left out, because newer ones fill the turn]`, `d.png 10485760 bytes of "d"`,
			}},
	}
	for _, step := range steps {
		end[event.Done](s, s.accept(shows(step.shows...)))
		if got := <-turns; !slices.Equal(got, step.sees) {
			t.Errorf("%s: got %q, want %q", step.what, got, step.sees)
		}
	}
}

func TestLogStoresReferences(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.runner("r1")
	_, events := end[event.Done](s, s.accept(shows(event.InputPart{Type: event.ContentText, Text: "hi"}, s.kept("a.png", 1<<20))))
	part := find[event.Input](events)[0].Messages[0].Content[1]
	if part.Ref == nil || len(part.Data) > 0 {
		t.Errorf("got %.200v, want the reference", part)
	}
}
