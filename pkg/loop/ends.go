package loop

import "errors"

// Ends reports whether the cause for which a request's context is cancelled ends the request as well. After any other
// cause somebody else goes on with it, so that what works for it elsewhere must go on too.
func Ends(cause error) bool { return isAbort(cause) || errors.Is(cause, errTime) }
