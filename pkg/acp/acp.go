// Package acp is version 1 of the Agent Client Protocol, by which editors and agents talk over standard input and output:
// JSON-RPC 2.0, one message a line, with requests in both directions. Read conn.go for the connection, types.go for the
// messages.
package acp

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Version is the version of the protocol.
const Version = 1

// The methods of an agent.
const (
	MethodInitialize   = "initialize"
	MethodAuthenticate = "authenticate"
	MethodNew          = "session/new"
	MethodLoad         = "session/load"
	MethodResume       = "session/resume"
	MethodList         = "session/list"
	MethodClose        = "session/close"
	MethodDelete       = "session/delete"
	MethodPrompt       = "session/prompt"
	MethodCancel       = "session/cancel" // a notification
	MethodSetMode      = "session/set_mode"
	MethodSetOption    = "session/set_config_option"
)

// The methods of a client.
const (
	MethodUpdate     = "session/update" // a notification
	MethodPermission = "session/request_permission"
	MethodElicit     = "elicitation/create"
	MethodReadFile   = "fs/read_text_file"
	MethodWriteFile  = "fs/write_text_file"
)

// methodCancelRequest withdraws a request, in both directions.
const methodCancelRequest = "$/cancel_request"

// The codes of errors.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeCancelled      = -32800 // the request was withdrawn
	CodeAuthRequired   = -32000
	CodeNotFound       = -32002
)

// Error is an error as the protocol carries it.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Errorf returns an error with a code.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Decode reads the parameters of a request or notification. A failure is an *Error for the peer.
func Decode[T any](params []byte) (T, error) {
	var value T
	if len(params) == 0 {
		params = []byte("{}")
	}
	if err := json.Unmarshal(params, &value, lenient()); err != nil {
		return value, Errorf(CodeInvalidParams, "the parameters are not valid: %v", err)
	}
	return value, nil
}

// lenient reads the JSON of programs that do not write all of it strictly: what they say should not be lost for it.
func lenient() json.Options {
	return json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
}
