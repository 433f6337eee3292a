package historyapi

import (
	"context"
	"iter"
)

// Service is the name under which history answers.
const Service = "history"

// The verbs of the service.
const (
	VerbThread       = "thread"
	VerbThreads      = "threads"
	VerbActions      = "actions"
	VerbSession      = "session"
	VerbSessions     = "sessions"
	VerbMessages     = "messages"
	VerbEvents       = "events"
	VerbRequest      = "request"
	VerbFrames       = "frames"
	VerbThreadFrames = "thread_frames"
	VerbTranscript   = "transcript"
	VerbOpen         = "open"
	VerbKept         = "kept"
	VerbStored       = "stored"
)

// Asker sends a question to a service and decodes its answer. A *bus.Bus is one. A fault of the other side comes back
// as a *apierr.Error; no answer at all is apierr.Unavailable.
type Asker interface {
	Ask(ctx context.Context, service, verb string, question, answer any) error
}

// Client asks history. It is safe for concurrent use.
type Client struct{ bus Asker }

// NewClient returns a client that asks over bus.
func NewClient(bus Asker) Client { return Client{bus} }

// Thread returns a thread, or apierr.ThreadNotFound.
func (c Client) Thread(ctx context.Context, q ThreadRef) (Thread, error) {
	return ask[Thread](ctx, c.bus, VerbThread, q)
}

// Threads lists threads.
func (c Client) Threads(ctx context.Context, q ThreadsQuery) (ThreadPage, error) {
	return ask[ThreadPage](ctx, c.bus, VerbThreads, q)
}

// Actions lists open actions. With a ThreadID it may fail with apierr.ThreadNotFound.
func (c Client) Actions(ctx context.Context, q ActionsQuery) (ActionPage, error) {
	return ask[ActionPage](ctx, c.bus, VerbActions, q)
}

// Session returns a session: a thread with or without a request, and what is noted on it. Or apierr.ThreadNotFound.
func (c Client) Session(ctx context.Context, q ThreadRef) (Session, error) {
	return ask[Session](ctx, c.bus, VerbSession, q)
}

// Sessions lists threads with what is noted on them.
func (c Client) Sessions(ctx context.Context, q ThreadsQuery) (SessionPage, error) {
	return ask[SessionPage](ctx, c.bus, VerbSessions, q)
}

// Messages lists a thread's messages, or fails with apierr.ThreadNotFound.
func (c Client) Messages(ctx context.Context, q MessagesQuery) (MessagePage, error) {
	return ask[MessagePage](ctx, c.bus, VerbMessages, q)
}

// Events lists a thread's events, or fails with apierr.ThreadNotFound.
func (c Client) Events(ctx context.Context, q EventsQuery) (EventPage, error) {
	return ask[EventPage](ctx, c.bus, VerbEvents, q)
}

// Request returns a request, or apierr.RequestNotFound. Live requests are better read from their log.
func (c Client) Request(ctx context.Context, q RequestRef) (Request, error) {
	return ask[Request](ctx, c.bus, VerbRequest, q)
}

// Frames returns the next events of a request.
func (c Client) Frames(ctx context.Context, q FramesQuery) (FramePage, error) {
	return ask[FramePage](ctx, c.bus, VerbFrames, q)
}

// ThreadFrames returns events of a thread's requests without deltas, or fails with apierr.ThreadNotFound.
func (c Client) ThreadFrames(ctx context.Context, q ThreadFramesQuery) (ThreadFramePage, error) {
	return ask[ThreadFramePage](ctx, c.bus, VerbThreadFrames, q)
}

// AllThreadFrames yields what ThreadFrames returns, page after page. A request may come in several parts.
func (c Client) AllThreadFrames(ctx context.Context, q ThreadFramesQuery) iter.Seq2[RequestFrames, error] {
	return func(yield func(RequestFrames, error) bool) {
		for {
			page, err := c.ThreadFrames(ctx, q)
			if err != nil {
				yield(RequestFrames{}, err)
				return
			}
			for _, r := range page.Requests {
				if !yield(r, nil) {
					return
				}
			}
			if q.Cursor = page.NextCursor; q.Cursor == "" {
				return
			}
		}
	}
}

// Transcript returns the state of a thread that a model needs.
func (c Client) Transcript(ctx context.Context, q TranscriptQuery) (TranscriptAnswer, error) {
	return ask[TranscriptAnswer](ctx, c.bus, VerbTranscript, q)
}

// Open lists requests that have not ended and are quiet.
func (c Client) Open(ctx context.Context, q OpenQuery) (OpenPage, error) {
	return ask[OpenPage](ctx, c.bus, VerbOpen, q)
}

// Kept returns history's data about requests that are not in the stream.
func (c Client) Kept(ctx context.Context, q KeptQuery) (Kept, error) {
	return ask[Kept](ctx, c.bus, VerbKept, q)
}

// Stored returns how many bytes are stored.
func (c Client) Stored(ctx context.Context, q StoredQuery) (Stored, error) {
	return ask[Stored](ctx, c.bus, VerbStored, q)
}

func ask[A any](ctx context.Context, bus Asker, verb string, question any) (A, error) {
	var answer A
	err := bus.Ask(ctx, Service, verb, question, &answer)
	return answer, err
}
