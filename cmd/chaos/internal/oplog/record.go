// Package oplog keeps what the actors of a run did and what they saw, as it was for them: an answer that did not come
// is unknown, never a failure. The checker reads it, and a file of JSON lines keeps it for people.
package oplog

import (
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Op is what an actor did.
type Op string

// The operations.
const (
	Post  Op = "post"  // started a request
	Abort Op = "abort" // asked for the end of a request
	Steer Op = "steer" // said something to a request that runs
	Read  Op = "read"  // read a stream over one connection
	Watch Op = "watch" // read a whole thread, or session, over one connection
	Task  Op = "task"  // gave a task to the hub, asked about it, or cancelled it
	Late  Op = "late"  // posted again when the streams had forgotten the request
	Spy   Op = "spy"   // asked for what belongs to another tenant
	Probe Op = "probe" // a small request, to see how long an answer takes
	Fault Op = "fault" // the nemesis did something
)

// Entry is one operation of one actor.
type Entry struct {
	At      time.Duration `json:"at"` // of the call, since the run began, by a monotonic clock
	Took    time.Duration `json:"took,omitzero"`
	Actor   string        `json:"actor"`
	Op      Op            `json:"op"`
	Tenant  string        `json:"tenant,omitempty"`
	Gateway string        `json:"gateway,omitempty"`
	Request string        `json:"request,omitempty"`
	Thread  string        `json:"thread,omitempty"`
	Status  int           `json:"status,omitzero"` // of HTTP; 0 = unknown
	Code    string        `json:"code,omitempty"`  // of an answer that is an error
	Error   string        `json:"error,omitempty"` // why the outcome is unknown

	// Of a post.
	Key     string   `json:"key,omitempty"`     // the Idempotency-Key
	Body    string   `json:"body,omitempty"`    // what the key stands for
	Stream  bool     `json:"stream,omitzero"`   // sent to the route that answers with the events
	Agent   string   `json:"agent,omitempty"`   // that it was for; "" = the one of the request that it follows
	Actions []string `json:"actions,omitempty"` // that it brings results for
	Allow   bool     `json:"allow,omitzero"`    // whether these results say yes

	// Of a steer.
	Steer string `json:"steer,omitempty"` // the id that the answer gave it

	// Of a read.
	Session  string        `json:"session,omitempty"` // connections of one session are one after the other
	Format   string        `json:"format,omitempty"`  // sse or ndjson
	Extended bool          `json:"extended,omitzero"` // every event was asked for, not the native ones alone
	After    string        `json:"after,omitempty"`   // the cursor that it resumed after
	Reset    bool          `json:"reset,omitzero"`    // the gateway said that the cursor is of no log it has
	Seen     []Seen        `json:"-"`
	Kept     int           `json:"kept,omitzero"`   // of a watch: how many of the events came up to the newest cursor
	Events   int           `json:"events,omitzero"` // len(Seen)
	End      End           `json:"end,omitempty"`
	Partial  int           `json:"partial,omitzero"`  // bytes of an event that was cut in the middle
	Silence  time.Duration `json:"silence,omitzero"`  // the longest time without a byte
	Foreign  string        `json:"foreign,omitempty"` // another tenant's secret that came along

	// Of a late post.
	Original string `json:"original,omitempty"` // the request that the key made
	Other    bool   `json:"other,omitzero"`     // the body is another one

	// Of a task.
	Cancel bool   `json:"cancel,omitzero"`
	Result string `json:"-"`

	// Of a fault.
	Fault  string        `json:"fault,omitempty"`
	Target string        `json:"target,omitempty"`
	For    time.Duration `json:"for,omitzero"`
}

// End says how a connection ended.
type End string

// The ends.
const (
	Terminal End = "terminal" // with the terminal event
	Left     End = "left"     // the client went
	Cut      End = "cut"      // the other side went, or nothing came for long
	Whole    End = "whole"    // in order, but without a terminal event
)

// Seen is an event as a client saw it.
type Seen struct {
	N    uint64
	Name string
	Sum  Sum
}

// Sum stands for the bytes of an event.
type Sum uint64

// SumOf returns the sum of an event's JSON.
func SumOf(line []byte) Sum {
	h := fnv.New64a()
	_, _ = h.Write(line) // never fails
	return Sum(h.Sum64())
}

// String is the lower half of the sum in hexadecimal digits.
func (s Sum) String() string {
	return fmt.Sprintf("%08x", uint64(s&math.MaxUint32))
}

// Log keeps entries. It is safe for concurrent use.
type Log struct {
	begin time.Time

	mu      sync.Mutex
	entries []Entry
	file    io.Writer
	err     error // of the first line that could not be written
}

// New returns a log that begins now and writes its lines to file.
func New(file io.Writer) *Log { return &Log{begin: time.Now(), file: file} }

// Now is the time since the run began.
func (l *Log) Now() time.Duration { return time.Since(l.begin) }

// Begin is the wall clock's time when the run began.
func (l *Log) Begin() time.Time { return l.begin }

// Add keeps an entry. One without a duration has taken from its time until now.
func (l *Log) Add(e Entry) {
	if e.Took == 0 {
		e.Took = l.Now() - e.At
	}
	e.Events = len(e.Seen)
	line, err := json.Marshal(e, Seconds())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
	if err == nil {
		_, err = fmt.Fprintf(l.file, "%s\n", line)
	}
	if l.err == nil {
		l.err = err
	}
}

// Seconds writes durations as seconds.
func Seconds() json.Options {
	return json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, d time.Duration) error {
		return enc.WriteToken(jsontext.Float(d.Seconds()))
	}))
}

// Entries returns what was kept, in the order in which the operations ended.
func (l *Log) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Entry(nil), l.entries...)
}

// Err returns why the file is not complete, or nil.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}
