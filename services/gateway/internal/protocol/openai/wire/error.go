package wire

import (
	"cmp"
	"encoding/json"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Error is the member error of a response, and of an event that ends a stream.
type Error struct {
	Message string          `json:"message"`
	Type    string          `json:"type"`
	Param   json.RawMessage `json:"param"` // null
	Code    string          `json:"code"`
}

// ErrorBody is the body of a response that is an error.
type ErrorBody struct {
	Error Error `json:"error"`
}

// NewError returns an error of these APIs. Its type is derived from the code.
func NewError(code apierr.Code, message string) Error {
	e := Error{Message: cmp.Or(message, string(code)), Type: "server_error", Param: json.RawMessage("null"), Code: string(code)}
	switch code {
	case apierr.AuthFailed:
		e.Type = "authentication_error"
	case apierr.ThreadAccessDenied:
		e.Type = "permission_error"
	case apierr.RateLimitExceeded:
		e.Type = "rate_limit_error"
	case apierr.InvalidMessageFormat, apierr.MessageTooLarge, apierr.InvalidActionID, apierr.ThreadNotFound, apierr.AgentNotFound,
		apierr.RequestNotFound, apierr.ObjectNotFound, apierr.RouteNotFound, apierr.ThreadBusy, apierr.RequestFinished,
		apierr.IdempotencyMismatch:
		e.Type = "invalid_request_error"
	default:
	}
	return e
}

// codeAborted is the code of a request that another client stopped.
const codeAborted = "aborted"

// EndError returns the error of a request that did not end well; false for any other event.
func EndError(body event.Body) (Error, bool) {
	switch b := body.(type) {
	case event.Error:
		return NewError(b.Code, b.Message), true
	case event.Aborted:
		return Error{
			Message: cmp.Or(b.Reason, "the request was aborted"), Type: "server_error", Param: json.RawMessage("null"), Code: codeAborted,
		}, true
	default:
		return Error{}, false
	}
}

// EncodeError encodes an error that replaces a response.
func EncodeError(f codec.ErrorResponse) (contentType string, body []byte) {
	return "application/json", append(Encode(ErrorBody{NewError(f.Code, f.Message)}), '\n')
}
