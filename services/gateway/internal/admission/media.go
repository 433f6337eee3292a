package admission

import (
	"context"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"golang.org/x/sync/errgroup"
)

// The bounds of the images and files that a request brings with their data.
const (
	maxMedia    = 50       // of one request
	inlineMedia = 64 << 10 // bytes, of all of them together, that stay in the request's record
	uploads     = 4        // to the object store at a time
)

// offloadMedia returns messages as they are recorded on the thread, and the data that is too large for a record: a reference
// stands in its place, and [Acceptor.upload] stores it. The same messages always become the same record. shelve writes nothing,
// so that the record can be measured first.
func offloadMedia(messages []event.InputMessage) (recorded []event.InputMessage, large [][]byte, err error) {
	if !slices.ContainsFunc(messages, bringsMedia) {
		return messages, nil, nil
	}
	recorded, parts, err := split(messages)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range parts {
		ref := bus.RefOf(p.Data)
		large = append(large, p.Data)
		p.Data, p.Ref = nil, &ref
	}
	return recorded, large, nil
}

// upload stores what shelve took out of the messages of a thread. Records refer to it, so it comes first.
func (d *Acceptor) upload(ctx context.Context, tenant, threadID string, large [][]byte) error {
	puts, ctx := errgroup.WithContext(ctx)
	puts.SetLimit(uploads)
	for _, data := range large {
		puts.Go(func() error {
			_, err := d.bus.PutObject(ctx, tenant, threadID, data)
			return err
		})
	}
	return puts.Wait()
}

func bringsMedia(m event.InputMessage) bool {
	return slices.ContainsFunc(m.Content, func(p event.InputPart) bool { return len(p.Data) > 0 || p.Ref != nil })
}

// split copies messages, and finds the parts of the copy that are too large to stay in it. A reference
// from outside is refused: whoever could name an object could read it.
func split(messages []event.InputMessage) (own []event.InputMessage, large []*event.InputPart, err error) {
	own = slices.Clone(messages)
	room, count := inlineMedia, 0
	for i := range own {
		own[i].Content = slices.Clone(own[i].Content)
		for k := range own[i].Content {
			p := &own[i].Content[k]
			if p.Ref != nil {
				return nil, nil, apierr.New(apierr.InvalidMessageFormat,
					"messages[%d].content[%d].ref is the server's word for data that it keeps; send the data itself", i, k)
			}
			if len(p.Data) == 0 {
				continue
			}
			if count++; count > maxMedia {
				return nil, nil, apierr.New(apierr.MessageTooLarge,
					"there are more than %d images and files with data; send the others in another request, or by url", maxMedia)
			}
			if len(p.Data) > room {
				large = append(large, p)
				continue
			}
			room -= len(p.Data)
		}
	}
	return own, large, nil
}
