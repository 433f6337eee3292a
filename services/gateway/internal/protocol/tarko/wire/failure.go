package wire

import (
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
)

// clientError is the form of an error of the client in Tarko's server: {error: '…'}. The other fields are extensions.
type clientError struct {
	Error            string      `json:"error"`
	Code             apierr.Code `json:"code"`
	Retryable        bool        `json:"retryable"`
	RunningRequestID string      `json:"runningRequestId,omitempty"`
}

// queryError is the form of a failed query in Tarko's server: {success: false, error: {code, message, details}}.
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

// The codes of Tarko's server.
const (
	codeExecution = "AGENT_EXECUTION_ERROR"
	codeUnknown   = "UNKNOWN_ERROR"
)

// EncodeError encodes an error as Tarko's server does.
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
		body = []byte(`{"error":"an internal error occurred"}`) // not reached: our messages are valid UTF-8
	}
	return "application/json", append(body, '\n')
}

func newQueryError(code string, f codec.ErrorResponse) queryError {
	return queryError{Error: errorBody{Code: code, Message: f.Message, Details: details{f.Code, f.Retryable, f.RequestID}}}
}

// message returns the message, with the wording that clients compare.
func message(f codec.ErrorResponse) string {
	if f.Code == apierr.ThreadNotFound {
		return "Session not found"
	}
	return f.Message
}
