package wire

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	words "github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a query.
const (
	maxParts   = 100
	maxActions = 100
)

// query is the body of a query. Unknown members are ignored, because clients of several versions send them.
type query struct {
	SessionID     string               `json:"sessionId"`
	Query         words.Content        `json:"query"`   // in the form of a user_query
	Content       words.Content        `json:"content"` // in the form of a user_message
	ActionResults []words.ActionResult `json:"actionResults"`
}

// Decode decodes a query: {sessionId, query}, where query is a string or an array of parts. As an extension of Tarko's
// protocol it accepts actionResults, the results of action_required events; a query with results needs no text. Queries
// that create a session have no session id.
func (Codec) Decode(text []byte) (event.AgentRequest, error) {
	if jsontext.Value(text).Kind() != jsontext.KindBeginObject {
		return event.AgentRequest{}, invalid("The body must be a JSON object such as {\"sessionId\":…,\"query\":\"hi\"}")
	}
	var q query
	if err := json.Unmarshal(text, &q, json.WithUnmarshalers(lists)); err != nil {
		return event.AgentRequest{}, explain(err)
	}
	return q.request()
}

func (q query) request() (event.AgentRequest, error) {
	r := event.AgentRequest{ThreadID: q.SessionID, Messages: []event.InputMessage{}}
	if q.SessionID != "" && !id.Valid(q.SessionID) {
		return r, invalid("sessionId %.80q must match ^[A-Za-z0-9_-]{1,64}$", q.SessionID)
	}
	where, content := "query", q.Query
	if len(content) == 0 {
		where, content = "content", q.Content
	}
	if isEmpty(content) && len(q.ActionResults) == 0 {
		return r, invalid("Query is required")
	}
	var err error
	if r.Context.ActionResults, err = results(q.ActionResults); err != nil || isEmpty(content) {
		return r, err
	}
	input, err := content.Input(where)
	if err != nil {
		return r, err
	}
	r.Messages = append(r.Messages, event.InputMessage{Role: event.RoleUser, Content: input})
	return r, nil
}

// isEmpty reports whether content has no parts, or only an empty text.
func isEmpty(c words.Content) bool {
	return len(c) == 0 || len(c) == 1 && c[0].Type == words.PartText && c[0].Text == ""
}

func results(told []words.ActionResult) ([]event.ActionResult, error) {
	if len(told) == 0 {
		return nil, nil
	}
	seen := make(map[string]bool, len(told))
	results := make([]event.ActionResult, 0, len(told))
	for i, a := range told {
		where := "actionResults[" + strconv.Itoa(i) + "]"
		status := event.ActionStatus(a.Status)
		switch {
		case !id.Valid(a.ActionID):
			return nil, invalid("%s.actionId %.80q must match ^[A-Za-z0-9_-]{1,64}$", where, a.ActionID)
		case seen[a.ActionID]:
			return nil, invalid("%s repeats actionId %s; an action has one result", where, a.ActionID)
		case status != event.ActionSuccess && status != event.ActionError && status != event.ActionDenied:
			return nil, invalid("%s.status is %.40q; use \"success\", \"error\" or \"denied\"", where, a.Status)
		}
		seen[a.ActionID] = true
		results = append(results, event.ActionResult{ActionID: a.ActionID, Status: status, Result: a.Result, Error: a.Error})
	}
	return results, nil
}

// lists stops at the first entry beyond the limit, before a small body becomes large in memory.
var lists = json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, content *words.Content) error {
		if dec.PeekKind() != jsontext.KindBeginArray {
			return errors.ErrUnsupported // a string, or an error
		}
		return json.UnmarshalDecode(dec, (*[]words.Part)(content))
	}),
	codec.AtMost[words.Part](maxParts, ""),
	codec.AtMost[words.ActionResult](maxActions, ""),
)

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}

// explain describes an error of the JSON decoder for clients, without names of Go types.
func explain(err error) error {
	if told, ok := errors.AsType[*apierr.Error](err); ok {
		return told
	}
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return invalid("The body is not valid JSON near byte %d, in %s", wrong.ByteOffset, codec.Path(wrong.JSONPointer))
	}
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		return invalid("%s has the wrong type%s", codec.Path(wrong.JSONPointer), reasonOf(wrong.Err))
	}
	return invalid("The body is not valid JSON")
}

// reasonOf returns the message of an API error within err, "" without one.
func reasonOf(err error) string {
	if _, deeper := errors.AsType[*json.SemanticError](err); err == nil || deeper {
		return ""
	}
	return fmt.Sprintf(": %v", err)
}
