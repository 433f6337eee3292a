package tarko

import (
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/dialect"
	"github.com/go-json-experiment/json"
)

// mistake is how Tarko's server tells what the client got wrong: {error: '…'}. What follows is ours.
type mistake struct {
	Error            string      `json:"error"`
	Code             apierr.Code `json:"code"`
	Retryable        bool        `json:"retryable"`
	RunningRequestID string      `json:"runningRequestId,omitempty"`
}

// failed is how it tells what went wrong with a query: {success: false, error: {code, message, details}}.
type failed struct {
	Success bool   `json:"success"`
	Error   reason `json:"error"`
}

type reason struct {
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

// Failure is an error in the words of Tarko's server.
func (Dialect) Failure(f dialect.Failure) (contentType string, body []byte) {
	var told any
	switch f.Code {
	case apierr.AgentError, apierr.ToolError, apierr.StreamTimeout:
		told = wentWrong(codeExecution, f)
	case apierr.Internal, apierr.Unavailable:
		told = wentWrong(codeUnknown, f)
	default:
		told = mistake{Error: message(f), Code: f.Code, Retryable: f.Retryable, RunningRequestID: f.Error.RequestID}
	}
	body, err := json.Marshal(told)
	if err != nil {
		body = []byte(`{"error":"an internal error occurred"}`) // a message that is no UTF-8, which none of ours is
	}
	return "application/json", append(body, '\n')
}

func wentWrong(code string, f dialect.Failure) failed {
	return failed{Error: reason{Code: code, Message: f.Message, Details: details{f.Code, f.Retryable, f.RequestID}}}
}

// message is what clients compare with, where they do.
func message(f dialect.Failure) string {
	if f.Code == apierr.ThreadNotFound {
		return "Session not found"
	}
	return f.Message
}
