// Package procgroup runs a program in a process group that does not outlive this process: when this process ends, in
// whatever way, the system ends the program and all that it has started in the group.
//
// A group may hold a [Lock], which the next process gets only when the whole group is gone.
package procgroup

import "errors"

// ErrLocked says that another group holds the lock.
var ErrLocked = errors.New("another process group holds the lock")
