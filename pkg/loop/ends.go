package loop

import (
	"errors"

	"github.com/agentbus/agentbus/pkg/backend"
)

// Ends reports whether the cause with which a request's context was cancelled ends the request. After any other cause
// another runner continues it, so work in other services must not be cancelled.
func Ends(cause error) bool { return errors.Is(cause, backend.ErrEnds) }
