package wire

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
)

// Kind is an error of the protocol, as the cause of an API error.
type Kind struct {
	reason string // of google.rpc.ErrorInfo
	code   int    // of JSON-RPC
	status string // of google.rpc.Status
}

// Error implements error.
func (k *Kind) Error() string { return strings.ToLower(k.reason) }

// The errors of the protocol that are not those of other protocols. New makes an API error of one.
var (
	errTaskNotFound = &Kind{"TASK_NOT_FOUND", -32001, "NOT_FOUND"}

	NotCancelable       = &Kind{"TASK_NOT_CANCELABLE", -32002, "FAILED_PRECONDITION"}
	Unsupported         = &Kind{"UNSUPPORTED_OPERATION", -32004, "FAILED_PRECONDITION"}
	VersionNotSupported = &Kind{"VERSION_NOT_SUPPORTED", -32009, "FAILED_PRECONDITION"}

	// These are errors of JSON-RPC.
	parseError     = &Kind{"PARSE_ERROR", -32700, "INVALID_ARGUMENT"}
	invalidRequest = &Kind{"INVALID_REQUEST", -32600, "INVALID_ARGUMENT"}
	MethodNotFound = &Kind{"METHOD_NOT_FOUND", -32601, "NOT_FOUND"}
)

// New returns an API error of a kind. Its HTTP status is 400.
func (k *Kind) New(format string, args ...any) error {
	return apierr.Wrap(k, apierr.InvalidMessageFormat, format, args...)
}

// domains of google.rpc.ErrorInfo: of the protocol, and of this server.
const (
	protocolDomain = "a2a-protocol.org"
	ownDomain      = "agentbus"
)

// The codes of JSON-RPC for other errors.
const (
	codeServer        = -32000
	codeInvalidParams = -32602
	codeInternal      = -32603
)

// statuses are the HTTP status and the name of google.rpc.Code of the errors of this server. Another code is an internal error.
var statuses = map[apierr.Code]struct {
	http int
	name string
	rpc  int
}{
	apierr.InvalidMessageFormat: {http.StatusBadRequest, "INVALID_ARGUMENT", codeInvalidParams},
	apierr.InvalidActionID:      {http.StatusBadRequest, "INVALID_ARGUMENT", codeInvalidParams},
	apierr.MessageTooLarge:      {http.StatusRequestEntityTooLarge, "INVALID_ARGUMENT", codeInvalidParams},
	apierr.IdempotencyMismatch:  {http.StatusUnprocessableEntity, "INVALID_ARGUMENT", codeInvalidParams},
	apierr.AuthFailed:           {http.StatusUnauthorized, "UNAUTHENTICATED", codeServer},
	apierr.ThreadAccessDenied:   {http.StatusForbidden, "PERMISSION_DENIED", codeServer},
	apierr.AgentNotFound:        {http.StatusNotFound, "NOT_FOUND", codeServer},
	apierr.ObjectNotFound:       {http.StatusNotFound, "NOT_FOUND", codeServer},
	apierr.RouteNotFound:        {http.StatusNotFound, "NOT_FOUND", codeServer},
	apierr.ThreadNotFound:       {http.StatusNotFound, "NOT_FOUND", codeServer},
	apierr.RequestNotFound:      {http.StatusNotFound, "NOT_FOUND", errTaskNotFound.code},
	apierr.ThreadBusy:           {http.StatusConflict, "ABORTED", codeServer},
	apierr.RequestFinished:      {http.StatusConflict, "FAILED_PRECONDITION", codeServer},
	apierr.RateLimitExceeded:    {http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", codeServer},
	apierr.Unavailable:          {http.StatusServiceUnavailable, "UNAVAILABLE", codeServer},
	apierr.StreamTimeout:        {http.StatusGatewayTimeout, "DEADLINE_EXCEEDED", codeServer},
}

// errorInfo is a google.rpc.ErrorInfo.
type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

// failure is an error in the terms of both bindings.
type failure struct {
	http    int
	status  string
	rpc     int
	details []errorInfo
}

func failureOf(e *apierr.Error) failure {
	info := errorInfo{Type: "type.googleapis.com/google.rpc.ErrorInfo", Reason: strings.ToUpper(string(e.Code)), Domain: ownDomain}
	f := failure{http: http.StatusInternalServerError, status: "INTERNAL", rpc: codeInternal}
	if s, ok := statuses[e.Code]; ok {
		f = failure{http: s.http, status: s.name, rpc: s.rpc}
	}
	kind, ok := errors.AsType[*Kind](e)
	if !ok && e.Code == apierr.RequestNotFound {
		kind, ok = errTaskNotFound, true
	}
	if ok {
		f.status, f.rpc = kind.status, kind.code
		info.Reason, info.Domain = kind.reason, protocolDomain
	}
	info.Metadata = map[string]string{"retryable": strconv.FormatBool(e.Retryable)}
	if e.RetryAfter > 0 {
		info.Metadata["retryAfterMs"] = strconv.FormatInt(e.RetryAfter.Milliseconds(), 10)
	}
	if e.RequestID != "" {
		info.Metadata["runningTaskId"] = e.RequestID
	}
	f.details = []errorInfo{info}
	return f
}

// EncodeError encodes an error as the HTTP+JSON binding has it. Errors that precede a call of JSON-RPC, such as a wrong key, have
// this form too.
func EncodeError(e codec.ErrorResponse) (contentType string, body []byte) {
	f := failureOf(e.Error)
	var v struct {
		Error struct {
			Code    int         `json:"code"`
			Status  string      `json:"status"`
			Message string      `json:"message"`
			Details []errorInfo `json:"details"`
		} `json:"error"`
	}
	v.Error.Code, v.Error.Status, v.Error.Message, v.Error.Details = f.http, f.status, message(e.Error), f.details
	return MediaType, append(encode(v), '\n')
}

// RPCError returns the response of a call of JSON-RPC that failed.
func RPCError(id json.RawMessage, e *apierr.Error) any {
	f := failureOf(e)
	r := rpcFailure{Version: "2.0", ID: id}
	if len(id) == 0 {
		r.ID = json.RawMessage("null")
	}
	r.Error.Code, r.Error.Message, r.Error.Data = f.rpc, message(e), f.details
	return r
}

type rpcFailure struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   struct {
		Code    int         `json:"code"`
		Message string      `json:"message"`
		Data    []errorInfo `json:"data"`
	} `json:"error"`
}

func message(e *apierr.Error) string {
	if e.Message == "" {
		return string(e.Code)
	}
	return strings.ToValidUTF8(e.Message, "\ufffd")
}

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}
