package langgraph

import (
	"context"
	"errors"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/backend/internal/upstream"
	"github.com/agentbus/agentbus/pkg/id"
)

// run is a run of the server, and what reads its stream.
type run struct {
	backend *Backend
	server  server
	thread  string
	mark    string
	turn    backend.Turn
	reader  *reader

	id   string // of the run; "" = not known
	last string // id of the last event
}

// fromStart is the id before the first event of a stream.
const fromStart = "-1"

// do starts the run, or finds the one that a runner before has started, and reads it to its end.
func (r *run) do(ctx context.Context, known int) error {
	stream, err := r.open(ctx, known)
	if err != nil {
		return err
	}
	for cuts := 0; ; {
		read, err := r.read(stream)
		if !errors.Is(err, backend.ErrCut) {
			return err
		}
		if read > 0 {
			cuts = 0
		}
		ended, statusErr := r.server.status(ctx, r.thread, r.id)
		if statusErr == nil && ended.ended() {
			return r.end(ctx, ended, errors.Is(err, upstream.ErrEnded) && cuts == 0 && r.turn.Attempt <= 1)
		}
		if cuts++; cuts > r.backend.joins || r.id == "" || ctx.Err() != nil {
			return err
		}
		if stream, err = r.rejoin(ctx, cuts); err != nil {
			return err
		}
	}
}

// open returns the stream of the run. A turn that was sent before may have a run already.
func (r *run) open(ctx context.Context, known int) (*upstream.Ahead, error) {
	if r.turn.Attempt > 1 {
		if r.find(ctx); r.id != "" {
			return r.rejoin(ctx, 0)
		}
	}
	if known > 0 {
		stream, err := r.start(ctx, known)
		if err == nil || !errors.Is(r.server.thread(ctx, r.thread), backend.ErrUnavailable) {
			return stream, err
		}
	}
	if err := r.server.createThread(ctx, r.thread); err != nil {
		return nil, err
	}
	stream, err := r.start(ctx, 0)
	if err != nil && ctx.Err() == nil {
		return nil, r.explain(ctx, err)
	}
	return stream, err
}

func (r *run) start(ctx context.Context, known int) (stream *upstream.Ahead, err error) {
	body, err := r.encode(known)
	if err != nil {
		return nil, err
	}
	r.id, stream, err = r.server.start(ctx, r.thread, body)
	return stream, err
}

// explain returns the error for a run that the server has refused: that it does not have the assistant, if that is the reason.
func (r *run) explain(ctx context.Context, refused error) error {
	if f, ok := errors.AsType[*apierr.Error](refused); !ok || f.Retryable {
		return refused
	}
	names, err := r.server.assistants(ctx)
	if err != nil {
		return refused
	}
	if err := r.backend.check(names); err != nil {
		return err
	}
	return refused
}

// find looks for the run of this turn. If the server does not answer, there is none: the run is sent again.
func (r *run) find(ctx context.Context) {
	all, err := r.server.runs(ctx, r.thread)
	if err != nil {
		return
	}
	for _, one := range all {
		if one.mark() == r.mark && id.Valid(one.RunID) {
			r.id = one.RunID
			return
		}
	}
}

// firstPause is how long a cut stream rests before it is joined for the second time without a new event.
const firstPause = 200 * time.Millisecond

// rejoin returns the stream of the run after its last event.
func (r *run) rejoin(ctx context.Context, cuts int) (*upstream.Ahead, error) {
	if cuts > 1 {
		timer := time.NewTimer(firstPause << min(cuts, 5))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	after := r.last
	if after == "" {
		after = fromStart
	}
	return r.server.join(ctx, r.thread, r.id, after)
}

// read reads a stream, and returns how many events it had.
func (r *run) read(stream *upstream.Ahead) (read int, err error) {
	defer stream.Close()
	for {
		e, err := stream.Next(r.reader.patience())
		if errors.Is(err, upstream.ErrNothingYet) {
			if err := r.reader.startCalls(); err != nil {
				return read, err
			}
			continue
		}
		if err != nil {
			return read, err
		}
		read++
		if e.ID != "" {
			r.last = e.ID
		}
		if err := r.take(e.Name, e.Data); err != nil {
			return read, err
		}
	}
}

// take reads an event.
func (r *run) take(name string, data []byte) error {
	if name == "metadata" && r.id == "" {
		var err error
		r.id, err = r.reader.runID(data)
		return err
	}
	return r.reader.take(name, data)
}

// end ends the turn with the run. Unless the stream was read as a whole, the state of the thread has the rest.
func (r *run) end(ctx context.Context, ended status, whole bool) error {
	failure := ""
	if !whole || r.reader.partial || ended.Status != "success" {
		now, err := r.server.state(ctx, r.thread)
		if err != nil {
			return err
		}
		if now.Metadata.RunID == r.id || now.Metadata.RunID == "" {
			if failure, err = r.reader.state(now); err != nil {
				return err
			}
		}
	}
	switch {
	case ended.Status == "error":
		return r.backend.agent.Failed(failure, false)
	case ended.Status == "timeout":
		return r.backend.agent.Failed("its run has reached the time limit of the server", true)
	case ended.Status == "interrupted" && len(r.reader.interrupts) == 0:
		return r.backend.agent.Failed("its run was cancelled", true)
	}
	return r.reader.finish()
}

// cancelWait limits the cancellation of a run. The turn must end within a second.
const cancelWait = 700 * time.Millisecond

// leave cancels the run if the request ends. Otherwise another runner joins it.
func (r *run) leave(ctx context.Context) {
	if !errors.Is(context.Cause(ctx), backend.ErrEnds) {
		return
	}
	cancelling, done := context.WithTimeout(context.WithoutCancel(ctx), cancelWait)
	defer done()
	if r.id == "" {
		r.find(cancelling)
	}
	if r.id != "" {
		_ = r.server.cancel(cancelling, r.thread, r.id) // the request has ended whatever the server answers
	}
}

// maxParts limits the messages and calls of a run.
const maxParts = 10_000

func (r *reader) tooMany() error {
	return r.agent.Broke("its run has more than %d messages or calls", maxParts)
}
