package tarko

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/media"
	"github.com/agentbus/agentbus/pkg/tarko"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxInlined limits the stored images and files in a shared page, in bytes before their encoding.
const maxInlined = 32 << 20

// inliner replaces the URLs of a session's objects by their data, for a page that needs no server.
type inliner struct {
	objects func(ctx context.Context, tenant, threadID string, ref event.ObjectRef) ([]byte, error)
	session session
	urls    map[string]string // by path; the path itself if the object has expired
	bytes   int
}

// inline returns the events with the data of the images and files that users and tools have sent.
func (s *Server) inline(ctx context.Context, found session, events []json.RawMessage) ([]json.RawMessage, error) {
	in := inliner{objects: s.Bus.Object, session: found, urls: map[string]string{}}
	all := make([]json.RawMessage, 0, len(events))
	for _, one := range events {
		changed, err := in.event(ctx, one)
		if err != nil {
			return nil, err
		}
		all = append(all, changed)
	}
	return all, nil
}

// event returns a flat event with the data of the objects in its content. Members that repeat the content are removed.
func (in *inliner) event(ctx context.Context, text json.RawMessage) (json.RawMessage, error) {
	if !strings.Contains(string(text), in.prefix()) {
		return text, nil
	}
	var members map[string]jsontext.Value
	if err := jsonv2.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	delete(members, "processedContent")
	var content tarko.Content
	if members["content"].Kind() == jsontext.KindBeginArray && jsonv2.Unmarshal(members["content"], &content) == nil {
		if err := in.parts(ctx, content); err != nil {
			return nil, err
		}
		inlined, err := jsonv2.Marshal(content)
		if err != nil {
			return nil, err
		}
		members["content"] = inlined
	}
	return jsonv2.Marshal(members, jsonv2.Deterministic(true))
}

func (in *inliner) prefix() string { return "/v1/threads/" + in.session.thread.ThreadID + "/objects/" }

func (in *inliner) parts(ctx context.Context, content tarko.Content) error {
	for i := range content {
		p := &content[i]
		var err error
		switch {
		case p.Image != nil:
			p.Image.URL, err = in.url(ctx, p.Image.URL)
		case p.File != nil && p.File.URL != "":
			p.File.URL, err = in.url(ctx, p.File.URL)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// url returns the data URL of an object's path, and any other URL unchanged.
func (in *inliner) url(ctx context.Context, path string) (string, error) {
	object, ours := strings.CutPrefix(path, in.prefix())
	if !ours {
		return path, nil
	}
	if url, again := in.urls[path]; again {
		return url, nil
	}
	data, err := in.objects(ctx, in.session.tenant, in.session.thread.ThreadID, event.ObjectRef{Object: object, SHA256: object})
	if errors.Is(err, bus.ErrNotFound) {
		in.urls[path] = path // it has expired, as the page would find
		return path, nil
	}
	if err != nil {
		return "", apierr.Wrap(err, apierr.Unavailable, "The pictures of the session could not be read; try again")
	}
	if in.bytes += len(data); in.bytes > maxInlined {
		return "", apierr.New(apierr.MessageTooLarge, "The session has more than %d bytes of pictures and files, too many for one page", maxInlined)
	}
	in.urls[path] = "data:" + media.Type(data) + ";base64," + base64.StdEncoding.EncodeToString(data)
	return in.urls[path], nil
}
