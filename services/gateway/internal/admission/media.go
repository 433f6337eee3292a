package admission

import (
	"context"
	"fmt"
	"slices"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"golang.org/x/sync/errgroup"
)

// Limits of the images and files that a request contains.
const (
	maxMedia        = 50       // of one request
	inlineMedia     = 64 << 10 // bytes in total that stay in the accept record
	parallelUploads = 4        // concurrent uploads to the object store
)

// offloadMedia replaces data of messages that is too large for a record by references, and returns that data for
// [Acceptor.upload]. The same messages always become the same record. It stores nothing, so that the record can be measured
// first.
func offloadMedia(messages *[]event.InputMessage, history *[]event.HistoryMessage) (large [][]byte, err error) {
	if !slices.ContainsFunc(*messages, bringsMedia) && !slices.ContainsFunc(*history, remembersMedia) {
		return nil, nil
	}
	*messages, *history = slices.Clone(*messages), slices.Clone(*history)
	s := split{inline: inlineMedia}
	for i := range *messages {
		s.add(fmt.Sprintf("messages[%d].content", i), &(*messages)[i].Content)
	}
	for i := range *history {
		s.add(fmt.Sprintf("messages[%d].content", i), &(*history)[i].Content)
	}
	if s.err != nil {
		return nil, s.err
	}
	for _, p := range s.large {
		ref := bus.RefOf(p.Data)
		large = append(large, p.Data)
		p.Data, p.Ref = nil, &ref
	}
	return large, nil
}

// upload stores what offloadMedia took out of the messages of a thread. Records refer to it, so it comes first.
func (d *Acceptor) upload(ctx context.Context, tenant, threadID string, large [][]byte) error {
	puts, ctx := errgroup.WithContext(ctx)
	puts.SetLimit(parallelUploads)
	for _, data := range large {
		puts.Go(func() error {
			_, err := d.bus.PutObject(ctx, tenant, threadID, data)
			return err
		})
	}
	return puts.Wait()
}

func bringsMedia(m event.InputMessage) bool { return slices.ContainsFunc(m.Content, hasData) }

func remembersMedia(m event.HistoryMessage) bool { return slices.ContainsFunc(m.Content, hasData) }

func hasData(p event.InputPart) bool { return len(p.Data) > 0 || p.Ref != nil }

// split finds the parts that are too large to stay in a record.
type split struct {
	inline int // bytes of data that may still stay
	count  int
	large  []*event.InputPart
	err    error
}

// add copies content, and finds the large parts of the copy. A reference of a client is refused: a client that could name
// an object could read it.
func (s *split) add(where string, content *event.InputContent) {
	*content = slices.Clone(*content)
	for k := range *content {
		p := &(*content)[k]
		switch {
		case s.err != nil:
			return
		case p.Ref != nil:
			s.err = apierr.New(apierr.InvalidMessageFormat,
				"%s[%d].ref is X the data itself", where, k)
		case len(p.Data) == 0:
		case s.count == maxMedia:
			s.err = apierr.New(apierr.MessageTooLarge,
				"there are more than %d images and files with data; send the others in another request, or by url", maxMedia)
		case len(p.Data) > s.inline:
			s.count++
			s.large = append(s.large, p)
		default:
			s.count++
			s.inline -= len(p.Data)
		}
	}
}
