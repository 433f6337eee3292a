package wire

import (
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
)

// clientError is how Tarko's server tells what the client got wrong: {error: '…'}. What follows is ours.
type clientError struct {
	Error            string      `json:"error"`
	Code             apierr.Code `json:"code"`
	Retryable        bool        `json:"retryable"`
	RunningRequestID string      `json:"runningRequestId,omitempty"`
}

// queryError is how it tells what went wrong with a query: {success: false, error: {code, message, details}}.
type queryError struct {
	Success bool      `json:"success"`
	Error   errorBody `json:"error"`
}

type errorBody struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Details details `json:"details"`
}

type details struct {
	Code      apierr.Code `json:"code"`
	Retryable bool        `json:"retryable"`
	RequestID string      `json:"requestId,omitempty"`
}

// The codes that Tarko's server has.
const (
	codeExecution = "AGENT_EXECUTION_ERROR"
	codeUnknown   = "UNKNOWN_ERROR"
)

// EncodeError is an error in the words of Tarko's server.
func (Codec) EncodeError(f codec.ErrorResponse) (contentType string, body []byte) {
	var told any
	switch f.Code {
	case apierr.AgentError, apierr.ToolError, apierr.StreamTimeout:
		told = newQueryError(codeExecution, f)
	case apierr.Internal, apierr.Unavailable:
		told = newQueryError(codeUnknown, f)
	default:
		told = clientError{Error: message(f), Code: f.Code, Retryable: f.Retryable, RunningRequestID: f.Error.RequestID}
	}
	body, err := json.Marshal(told)
	if err != nil {
		body = []byte(`{"error":"an internal error occurred"}`) // a message that is no UTF-8, which none of ours is
	}
	return "application/json", append(body, '\n')
}

func newQueryError(code string, f codec.ErrorResponse) queryError {
	return queryError{Error: errorBody{Code: code, Message: f.Message, Details: details{f.Code, f.Retryable, f.RequestID}}}
}

// message is what clients compare with, where they do.
func message(f codec.ErrorResponse) string {
	if f.Code == apierr.ThreadNotFound {
		return "Session not found"
	}
	return f.Message
}
