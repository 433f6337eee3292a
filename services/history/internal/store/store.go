// Package store is the door to the databases that history keeps its projection in. A database implements [Store]; what
// every one of them must do is written as tests in storetest, and the choice is made in services/history/history.go.
//
// Read sqlstore for how it is done: the SQL databases share it and differ in a page of dialect.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
)

var (
	// ErrNotFound says that the store has no such thread or request, or that it was deleted.
	ErrNotFound = errors.New("not in the store")
	// ErrDeleted is the ErrNotFound of a thread that was deleted, and of its requests.
	ErrDeleted = fmt.Errorf("the thread was deleted: %w", ErrNotFound)
	// ErrHole says that frames are missing before this one: it must come again after them.
	ErrHole = errors.New("earlier events of the request are missing")
	// ErrStale says that an entry contradicts what is stored and never will fit: an event after the terminal one.
	ErrStale = errors.New("contradicts what is stored")
	// ErrReplaced says that the database is older than what this process has seen of it: another copy took its place.
	ErrReplaced = errors.New("the database was replaced by an older copy")
	// ErrNoTables says that tables are missing from the database, which [Keeper.Migrate] makes.
	ErrNoTables = errors.New("the tables of history are missing")
	// ErrRefused says that the database rejects the data itself, so that the same batch will never go in.
	ErrRefused = errors.New("the database refuses the data")
)

// Hole is the ErrHole of a frame: Next is the event that must come first.
type Hole struct {
	RequestID  string
	Next, Came uint64
}

func (h *Hole) Error() string {
	return fmt.Sprintf("event %d of request %s came, %d is next", h.Came, h.RequestID, h.Next)
}

// Unwrap makes it an ErrHole.
func (h *Hole) Unwrap() error { return ErrHole }

// Entry is what the bus delivers: exactly one of Accepted, Thread, Session and Frame is set.
type Entry struct {
	Tenant    string
	ThreadID  string // with Accepted, Thread and Session
	RequestID string // with Accepted and Frame
	Sequence  uint64 // in the stream
	Time      time.Time

	Accepted *record.Accepted
	Thread   *record.Thread
	Session  *record.Session
	Frame    *event.Frame

	// Forgotten, with Frame, marks that the events before it are lost, so that they are not a hole.
	Forgotten bool
}

// Result is what became of a batch.
type Result struct {
	// Errors has one for each entry: nil when it is stored, now or before; ErrHole; ErrStale.
	Errors []error
	// Events counts those stored for the first time.
	Events int
	// Cuts lists the logs of which a part was replaced by another incarnation's.
	Cuts []Cut
	// Progress is the progress of the projection with this batch; the zero value when none was stored before.
	Progress Progress
}

// Progress is how far the projection of the stream into the database has come.
type Progress struct {
	Incarnation string // of the stream; "" = the database was not compared with a stream yet, or a rebuild was asked for
	Through     uint64 // everything that the stream held up to this sequence is stored
	Target      uint64 // while it is above Through, the messages between them are projected again
	Version     int64  // grows with each transaction
}

// Behind reports whether a part of the stream must be projected again.
func (p Progress) Behind() bool { return p.Target > p.Through }

// Known is a process's knowledge of the projection when it stores a batch; the zero value means none. Each state of the
// database with this version or a later one contains everything up to Through.
type Known struct {
	Through uint64
	Version int64
}

// Cut reports that the events of a request from N on were replaced. It happens after a restore of the stream to an
// earlier state, when a runner continues from there.
type Cut struct {
	Tenant, RequestID string
	N                 uint64
	Was, Is           string // incarnations
}

// Recorder stores what the bus delivers.
type Recorder interface {
	// Apply stores entries in one transaction. They may arrive in any order, more than once and from several processes
	// at a time; if those with ErrHole are repeated, the result is exactly the logs. If Apply returns an error, it has
	// stored nothing of the batch. The progress moves to known.Through in the same transaction, unless it is already
	// further; ErrReplaced if the version of the stored progress is below known.Version.
	Apply(ctx context.Context, entries []Entry, known Known) (Result, error)
}

// Keeper keeps the progress of the projection.
type Keeper interface {
	// Progress returns the stored progress; the zero value without one.
	Progress(ctx context.Context) (Progress, error)
	// MoveProgress replaces the stored progress by what move makes of it, in one transaction, with the next version, and
	// returns what is stored then. It writes nothing when move changes nothing.
	MoveProgress(ctx context.Context, move func(Progress) Progress) (Progress, error)
	// Empty reports whether no thread and no request is stored.
	Empty(ctx context.Context) (bool, error)
	// Recount replaces the counts of stored bytes by what the stored rows add up to. Apply keeps them exact; only rows that
	// something else has written or removed make it necessary.
	Recount(ctx context.Context) error
	// Migrate makes the tables that are missing.
	Migrate(ctx context.Context) error
}

// Reader answers from what is stored. Missing and deleted threads and requests are ErrNotFound; lists leave them out.
type Reader struct {
	ThreadReader
	LogReader
}

// ThreadReader reads threads and lists their requests.
type ThreadReader interface {
	// Thread returns a thread that has a request or metadata.
	Thread(ctx context.Context, tenant, threadID string) (historyapi.Session, error)
	// Threads lists an owner's threads, the newest change first, from after on.
	Threads(ctx context.Context, tenant, owner string, after ThreadPosition, limit int) ([]historyapi.Session, error)
	// Requests lists the requests of a thread that have an index, in order, from after on.
	Requests(ctx context.Context, tenant, threadID string, after Position, limit int) ([]Request, error)
	// Ended counts the requests of a thread with an index below before that have their terminal event.
	Ended(ctx context.Context, tenant, threadID string, before int) (int, error)
	// Stored returns how many bytes are stored of an owner's threads, or with owner "" of all threads of the tenant: the
	// lines of frames as they are packed, the bodies of requests, and the metadata of threads.
	Stored(ctx context.Context, tenant, owner string) (int64, error)
}

// LogReader reads requests and their events.
type LogReader interface {
	Request(ctx context.Context, tenant, requestID string) (Request, error)
	// Open lists the requests of all tenants that are on a thread, and have no terminal event and no event at or after quiet:
	// by tenant and request, from after on.
	Open(ctx context.Context, quiet time.Time, after historyapi.RequestRef, limit int) ([]historyapi.OpenRequest, error)
	// Events lists events in the order of the thread: by request, then by n.
	Events(ctx context.Context, q Events) ([]Event, error)
	// Continuations lists the events continuation of those requests of threads that have ended with done.
	Continuations(ctx context.Context, tenant string, requestIDs []string) ([]Event, error)
	// Frames lists the log of a request, in frames that need not be cut as they were stored.
	Frames(ctx context.Context, q Frames) ([]event.Frame, error)
}

// Database is the connection to a database.
type Database interface {
	// Ready reports why the database cannot be used, or nil.
	Ready(ctx context.Context) error
	Close() error
}

// Store is a database. [Of] makes one of an implementation.
type Store struct {
	Recorder
	Keeper
	Reader
	Database
}

// Of returns the parts of an implementation.
func Of[S interface {
	Recorder
	Keeper
	ThreadReader
	LogReader
	Database
}](s S) Store {
	return Store{s, s, Reader{s, s}, s}
}

// Request is a request as it is stored.
type Request struct {
	historyapi.Request                      // without Usage and Terminal
	Accepted           bool                 // whether the accepted request is known: who, when, and Input
	Input              []event.InputMessage // what the user said, as accepted
	Next               uint64               // n of the event that comes next
	BodyHash           string               // of the body that it came with; "" = not known
}

// Position is a place in a thread: after event N-1 of a request. The zero value is the start.
type Position struct {
	Index     int
	RequestID string
	N         uint64 // the next event of that request
}

// ThreadPosition is a place in a list of threads. The zero value is the start.
type ThreadPosition struct {
	UpdatedAt time.Time
	ThreadID  string
}

// Events selects events: those of RequestID, or else those of ThreadID. Limit is required.
type Events struct {
	Tenant    string
	ThreadID  string
	RequestID string

	After   Position     // of a request only N counts
	Before  int          // index of the first request that is too late; 0 = no limit
	Names   []event.Name // none = all
	Without []event.Name
	Blocks  bool // leave out the deltas

	WithoutToolOutput bool     // leave out the output of tools (event.Line.HasToolOutput), except that of the agents
	ToolOutputOf      []string // named here, in a list of a thread

	Since time.Time
	Until time.Time // exclusive
	Limit int
	Bytes int // stop after the event that makes the JSON longer than this; 0 = no limit
}

// Frames selects the log of a request from event n = From on. Limit is required.
type Frames struct {
	Tenant    string
	RequestID string
	From      uint64
	Limit     int // of events
	Bytes     int // stop after the frame that makes the lines longer than this; 0 = no limit
}

// Event is an event as it is stored.
type Event struct {
	Index       int // of its request; 0 when asked for by RequestID
	RequestID   string
	N           uint64
	Incarnation string
	Name        event.Name
	JSON        json.RawMessage
}
