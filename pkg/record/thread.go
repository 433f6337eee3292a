package record

import "errors"

// LogID names the log of one request.
type LogID struct{ Tenant, RequestID string }

// ThreadRecord is a record of a thread with its sequence in the stream.
type ThreadRecord struct {
	Thread
	Sequence uint64
}

// Errors of whatever stores the records.
var (
	// ErrNotFound reports that the record or log does not exist. On a cluster the leader was asked.
	ErrNotFound = errors.New("not found on the bus")
	// ErrConflict reports that a compare-and-set failed: another writer was first.
	ErrConflict = errors.New("another writer was first")
)
