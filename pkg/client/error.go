package client

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
)

// maxErrorBody bounds the body of a bad status, in bytes.
const maxErrorBody = 64 << 10

// errorOf reads the error event in the body of a response. Any other body, such as a proxy's page, becomes an API error
// that fits the status.
func errorOf(response *http.Response) *apierr.Error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody)) // what came of it will do
	f, told := fromBody(body)
	if !told {
		f = fromStatus(response)
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		f.RetryAfter = time.Duration(seconds) * time.Second
	}
	if f.Code == apierr.ThreadBusy && f.RequestID == "" {
		f.RequestID = response.Header.Get("X-Request-Id")
	}
	return f
}

// fromBody returns false for a body that is not an error event.
func fromBody(body []byte) (f *apierr.Error, ok bool) {
	e, _ := event.Decode(body) // a body that cannot be decoded has no event
	told, ok := e.Body.(event.Error)
	if !ok || told.Code == "" {
		return nil, false
	}
	f = apierr.New(told.Code, "%s", told.Message)
	f.Retryable = told.Retryable
	f.RequestID = told.RunningRequestID
	return f, true
}

func fromStatus(response *http.Response) *apierr.Error {
	const told = "the server answered %s and no reason"
	switch response.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return apierr.New(apierr.Unavailable, told, response.Status)
	case http.StatusTooManyRequests:
		return apierr.New(apierr.RateLimitExceeded, told, response.Status)
	case http.StatusUnauthorized:
		return apierr.New(apierr.AuthFailed, told, response.Status)
	case http.StatusNotFound:
		return apierr.New(apierr.RouteNotFound, told+"; is the URL that of an agentbus gateway?", response.Status)
	default:
		return apierr.New(apierr.Internal, told, response.Status)
	}
}

// passing reports whether the same call may succeed soon. That a thread is busy passes too, but not soon, and the
// caller may prefer to follow the running request.
func passing(err error) bool {
	if f, ok := errors.AsType[*apierr.Error](err); ok {
		return f.Retryable && f.Code != apierr.ThreadBusy
	}
	var permanent *permanentError
	return !errors.As(err, &permanent)
}

// permanentError is a failure that no other attempt would mend.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }
