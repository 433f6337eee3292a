// Package responder gives the answers of pkg/historyapi from what is stored, after making sure that it has been stored as far as
// the log went when the question came (wait.go).
package responder

import (
	"context"
	"errors"
	"iter"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/history/internal/store"
	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
)

// Bus reads how far the logs have come. It is implemented by *bus.Bus.
type Bus interface {
	Thread(ctx context.Context, tenant, threadID string) (bus.ThreadRecord, error)
	ThreadRecords(ctx context.Context, tenant, threadID string, after uint64) iter.Seq2[bus.ThreadRecord, error]
	Session(ctx context.Context, tenant, threadID string) (bus.SessionRecord, error)
	Accepted(ctx context.Context, id bus.LogID) (record.Accepted, error)
	Last(ctx context.Context, id bus.LogID) (event.Frame, error)
	LastSequence(ctx context.Context) (uint64, error)
	Projected(ctx context.Context) (bus.Projected, error)
}

// Recorder is what this process stores with.
type Recorder interface {
	// Changed returns a channel that is closed when more has been stored.
	Changed() <-chan struct{}
	// Hurry signals that a reader waits.
	Hurry()
}

// Progress reports whether the database lacks a part of what the stream holds.
type Progress interface {
	// Check returns a *projector.Behind if the database lacks data; another error if the database does not answer.
	Check(ctx context.Context) error
	// Ready returns the *projector.Behind of the last check of the database, or nil.
	Ready() error
}

// Answerer answers. It is safe for concurrent use.
type Answerer struct {
	store    store.Reader
	bus      Bus
	recorder Recorder
	progress Progress
}

// New returns an answerer.
func New(s store.Reader, b Bus, r Recorder, p Progress) *Answerer {
	return &Answerer{store: s, bus: b, recorder: r, progress: p}
}

// Verbs lists the questions, for bus.Serve.
func (a *Answerer) Verbs() map[string]bus.Handler {
	return map[string]bus.Handler{
		historyapi.VerbThread:       handler(historyapi.VerbThread, a.Thread),
		historyapi.VerbThreads:      handler(historyapi.VerbThreads, a.Threads),
		historyapi.VerbActions:      handler(historyapi.VerbActions, a.Actions),
		historyapi.VerbSession:      handler(historyapi.VerbSession, a.Session),
		historyapi.VerbSessions:     handler(historyapi.VerbSessions, a.Sessions),
		historyapi.VerbMessages:     handler(historyapi.VerbMessages, a.Messages),
		historyapi.VerbEvents:       handler(historyapi.VerbEvents, a.Events),
		historyapi.VerbRequest:      handler(historyapi.VerbRequest, a.Request),
		historyapi.VerbFrames:       handler(historyapi.VerbFrames, a.Frames),
		historyapi.VerbThreadFrames: handler(historyapi.VerbThreadFrames, a.ThreadFrames),
		historyapi.VerbTranscript:   handler(historyapi.VerbTranscript, a.Transcript),
		historyapi.VerbOpen:         handler(historyapi.VerbOpen, a.Open),
		historyapi.VerbKept:         handler(historyapi.VerbKept, a.Kept),
		historyapi.VerbStored:       handler(historyapi.VerbStored, a.Stored),
	}
}

// handler decodes a question, watches over its answer, and turns errors into faults.
func handler[Q, A any](verb string, answer func(context.Context, Q) (A, error)) bus.Handler {
	tracer := otel.Tracer("github.com/agentbus/agentbus/services/history")
	return func(ctx context.Context, question []byte) (any, error) {
		ctx, span := tracer.Start(ctx, "history "+verb)
		defer span.End()
		var q Q
		if err := json.Unmarshal(question, &q); err != nil {
			return nil, apierr.Wrap(err, apierr.InvalidMessageFormat, "the query is not JSON of the form that pkg/historyapi defines")
		}
		a, err := answer(ctx, q)
		if err != nil {
			err = explain(err)
			span.SetAttributes(attribute.String("error.type", string(apierr.CodeOf(err))))
			span.SetStatus(codes.Error, err.Error())
			return nil, err
		}
		return a, nil
	}
}

// explain makes what is not a fault yet a fault: what remains is the database.
func explain(err error) error {
	if _, ok := errors.AsType[*apierr.Error](err); ok {
		return err
	}
	return apierr.Wrap(err, apierr.Unavailable, "history cannot read its database; try again")
}

func noThread(threadID string) error {
	return apierr.New(apierr.ThreadNotFound, "there is no thread %s", threadID)
}

func noRequest(requestID string) error {
	return apierr.New(apierr.RequestNotFound, "there is no request %s", requestID)
}

// checkIDs refuses what cannot name anything before it comes near a subject.
func checkIDs(ids ...string) error {
	for _, s := range ids {
		if !id.Valid(s) {
			return apierr.New(apierr.InvalidMessageFormat, "%.80q is not an identifier: 1 to %d letters, digits, - and _", s, id.MaxLength)
		}
	}
	return nil
}

// limit reads a limit that a question may leave out.
func limit(asked, usual, most int) (int, error) {
	switch {
	case asked == 0:
		return usual, nil
	case asked < 0 || asked > most:
		return 0, apierr.New(apierr.InvalidMessageFormat, "limit is %d, must be 1 to %d", asked, most)
	default:
		return asked, nil
	}
}
