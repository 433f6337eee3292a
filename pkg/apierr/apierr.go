// Package apierr is the error type that services exchange and that clients read.
//
// Near its cause an error gets a [Code] and a sentence with the remedy; the gateway encodes it once, in the form of the
// client's protocol. An error without a code is internal_error: its text is logged and never sent.
package apierr

import (
	"errors"
	"fmt"
	"time"
)

// Code is a machine-readable reason (agent event protocol, Error Codes).
type Code string

// The codes of the agent event protocol.
const (
	AuthFailed           Code = "auth_failed"
	ThreadNotFound       Code = "thread_not_found"
	ThreadAccessDenied   Code = "thread_access_denied"
	InvalidMessageFormat Code = "invalid_message_format"
	MessageTooLarge      Code = "message_too_large"
	RateLimitExceeded    Code = "rate_limit_exceeded"
	StreamTimeout        Code = "stream_timeout"
	AgentError           Code = "agent_error"
	ToolError            Code = "tool_error"
	Internal             Code = "internal_error"
	InvalidActionID      Code = "invalid_action_id"
)

// Codes of the server that the agent event protocol does not have.
const (
	AgentNotFound       Code = "agent_not_found"
	RequestNotFound     Code = "request_not_found"
	ObjectNotFound      Code = "object_not_found"
	RouteNotFound       Code = "route_not_found"
	ThreadBusy          Code = "thread_busy"          // another request runs on the thread
	RequestFinished     Code = "request_finished"     // an abort came after the terminal event
	IdempotencyMismatch Code = "idempotency_mismatch" // the key was used with another body
	Unavailable         Code = "unavailable"          // a store or the broker does not answer; worth another try
)

// Codes lists every code, in the order of the documentation.
func Codes() []Code {
	return []Code{
		AuthFailed, ThreadNotFound, ThreadAccessDenied, InvalidMessageFormat, MessageTooLarge, RateLimitExceeded,
		StreamTimeout, AgentError, ToolError, Internal, InvalidActionID,
		AgentNotFound, RequestNotFound, ObjectNotFound, RouteNotFound, ThreadBusy, RequestFinished, IdempotencyMismatch,
		Unavailable,
	}
}

// Error is a failure that a client may read. Message is written for people: it states what was wrong and what to do.
// The cause is for logs only.
type Error struct {
	Code       Code
	Message    string
	Retryable  bool          // the same call may succeed later
	RetryAfter time.Duration // how long to wait; 0 = not said
	RequestID  string        // the running request, with ThreadBusy
	cause      error
}

// New returns an error that is not worth a retry, unless its code says so by nature (see [Code.Retryable]).
func New(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Retryable: code.Retryable()}
}

// Wrap is New with a cause that [errors.Is] finds and clients never see.
func Wrap(cause error, code Code, format string, args ...any) *Error {
	e := New(code, format, args...)
	e.cause = cause
	return e
}

// Error gives the code, the message and the cause: for logs.
func (e *Error) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("%s: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%s: %s: %v", e.Code, e.Message, e.cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Retryable reports whether the code by itself means "try again later" (agent event protocol, Retry Guidance).
func (c Code) Retryable() bool {
	switch c {
	case RateLimitExceeded, StreamTimeout, ThreadBusy, Unavailable:
		return true
	default:
		return false
	}
}

// From finds the *Error in err's chain. Any other error becomes a retryable internal_error whose message gives
// nothing away. From(nil) is nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: Internal, Message: "an internal error occurred; try again, and report the trace id if it stays",
		Retryable: true, cause: err}
}

// CodeOf returns the code that err carries, Internal for an error without one, and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return From(err).Code
}
