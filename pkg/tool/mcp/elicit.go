package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/tool"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxRounds   = 10       // questions of one call
	maxMessage  = 8 << 10  // bytes of a question
	maxQuestion = 64 << 10 // bytes of the schema of a question, and of the state of the server
)

// The actions of a user who is asked (MCP, elicitation).
const (
	actionAccept  = "accept"
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// modeURL is a question that sends the user to a page.
const modeURL = "url"

// dialog is what a call has asked the user so far. It is the state of a [tool.Ask].
type dialog struct {
	State    string                       `json:"state,omitempty"`    // of the server
	Requests sdk.InputRequestMap          `json:"requests,omitempty"` // by the names that the server gave them
	Answers  map[string]*sdk.ElicitResult `json:"answers,omitempty"`
	Asked    string                       `json:"asked,omitempty"` // name of the question that the user is asked now
	Rounds   int                          `json:"rounds,omitzero"` // questions so far
	Visits   bool                         `json:"visits,omitzero"` // the requests are pages to visit before the call
	Live     string                       `json:"live,omitempty"`  // name of the call, which is open in the process that asked

	refused bool // the user did not visit a page
}

// restore reads the dialog of an answer, and adds that. It returns the next question, or the same one if the answer does not
// fit its schema.
func (d *dialog) restore(a tool.Answer) (*tool.Ask, error) {
	if err := jsonv2.Unmarshal(a.Ask.State, d); err != nil {
		return nil, fmt.Errorf("state of a question: %w", err)
	}
	result, problem := answer(a)
	if problem != "" {
		if d.Rounds++; d.Rounds <= maxRounds {
			again := a.Ask
			again.Question = problem + "\n" + strings.TrimPrefix(a.Ask.Question, problem+"\n")
			state, err := jsonv2.Marshal(d)
			again.State = state
			return &again, err
		}
		result = &sdk.ElicitResult{Action: actionCancel}
	}
	if d.Answers == nil {
		d.Answers = map[string]*sdk.ElicitResult{}
	}
	d.Answers[d.Asked] = result
	d.refused = d.Visits && result.Action != actionAccept
	if d.Live != "" || d.refused {
		return nil, nil //nolint:nilnil // there is no other question
	}
	return d.question()
}

// next returns the first question of what a server asks.
func (d *dialog) next(requests sdk.InputRequestMap, state string) (*tool.Ask, error) {
	if len(state) > maxQuestion {
		return nil, apierr.New(apierr.ToolError, "the MCP server asks the user, with a state of more than %d bytes; the call did not finish", maxQuestion)
	}
	d.State, d.Requests, d.Answers = state, requests, nil
	return d.question()
}

// question returns the first question without an answer; nil = all have one.
func (d *dialog) question() (*tool.Ask, error) {
	for _, name := range slices.Sorted(maps.Keys(d.Requests)) {
		if d.Answers[name] == nil {
			d.Asked = name
			return d.ask(d.Requests[name])
		}
	}
	return nil, nil //nolint:nilnil // there is no other question
}

func (d *dialog) ask(request sdk.InputRequest) (*tool.Ask, error) {
	params, ok := request.(*sdk.ElicitParams)
	if !ok {
		return nil, apierr.New(apierr.ToolError, "the MCP server asks for what agents do not offer (%T); the call did not finish", request)
	}
	if d.Rounds++; d.Rounds > maxRounds {
		return nil, apierr.New(apierr.ToolError, "the MCP server has asked the user %d questions and asks for more; the call did not finish", maxRounds)
	}
	ask, err := askOf(params)
	if err != nil {
		return nil, apierr.Wrap(err, apierr.ToolError, "the MCP server asks the user what cannot be shown: %v; the call did not finish", err)
	}
	ask.Held = d.Live != ""
	ask.State, err = jsonv2.Marshal(d)
	return &ask, err
}

// askOf returns the question that a server asks.
func askOf(p *sdk.ElicitParams) (tool.Ask, error) {
	ask := tool.Ask{Question: strings.ToValidUTF8(p.Message, "\uFFFD")}
	if len(ask.Question) > maxMessage {
		ask.Question = strings.ToValidUTF8(ask.Question[:maxMessage], "") + "…"
	}
	if p.Mode == modeURL {
		u, err := url.Parse(p.URL)
		if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || len(p.URL) > maxMessage {
			return tool.Ask{}, errors.New("its page is not an HTTP address")
		}
		ask.URL = p.URL
		return ask, nil
	}
	if p.RequestedSchema == nil {
		return ask, nil
	}
	schema, err := jsonv2.Marshal(p.RequestedSchema, jsonv2.Deterministic(true))
	if err != nil || len(schema) > maxQuestion {
		return tool.Ask{}, errors.New("its schema is too large")
	}
	ask.Schema = schema
	_, err = tool.CompileSchema(tool.Spec{Name: "the answer", Schema: schema})
	return ask, err
}

// answer converts a client's result. A problem is why it does not fit the schema, for the user.
func answer(a tool.Answer) (result *sdk.ElicitResult, problem string) {
	switch {
	case a.Result.Status == event.ActionDenied:
		return &sdk.ElicitResult{Action: actionDecline}, ""
	case a.Result.Status != event.ActionSuccess:
		return &sdk.ElicitResult{Action: actionCancel}, ""
	case a.Ask.URL != "":
		return &sdk.ElicitResult{Action: actionAccept}, ""
	case a.Ask.Schema == nil:
		return &sdk.ElicitResult{Action: actionAccept, Content: map[string]any{}}, ""
	}
	content, err := form(a.Ask.Schema, a.Result.Result)
	if err != nil {
		return nil, "That answer does not fit: " + apierr.From(err).Message
	}
	return &sdk.ElicitResult{Action: actionAccept, Content: content}, ""
}

// form returns the members of an answer that fits a schema. A client that shows no forms sends a text: JSON, or the value of
// the only member.
func form(schema, given json.RawMessage) (map[string]any, error) {
	compiled, err := tool.CompileSchema(tool.Spec{Name: "the answer", Schema: schema})
	if err != nil {
		return nil, err
	}
	if text, ok := typed(given); ok {
		given = json.RawMessage(text)
		if jsontext.Value(text).Kind() != jsontext.KindBeginObject {
			given = only(schema, text)
		}
	}
	if err := compiled.Check(given); err != nil {
		return nil, err
	}
	var content map[string]any
	return content, jsonv2.Unmarshal(given, &content)
}

// typed returns the text of a result that is one.
func typed(result json.RawMessage) (text string, ok bool) {
	return text, jsontext.Value(result).Kind() == jsontext.KindString && jsonv2.Unmarshal(result, &text) == nil
}

// only returns an object whose only member, as the schema has it, is what a user has typed. For a schema with several members
// it is the text, which does not fit.
func only(schema json.RawMessage, text string) json.RawMessage {
	var s struct {
		Properties map[string]struct {
			Type string `json:"type"`
		} `json:"properties"`
	}
	var object any = text
	if jsonv2.Unmarshal(schema, &s) == nil && len(s.Properties) == 1 {
		for name, property := range s.Properties {
			object = map[string]any{name: valueOf(property.Type, strings.TrimSpace(text))}
		}
	}
	data, _ := jsonv2.Marshal(object) // texts, numbers and booleans always have a JSON form
	return data
}

// valueOf reads what a user has typed as a value of a JSON type, or as a text.
func valueOf(kind, text string) any {
	switch kind {
	case "boolean":
		switch strings.ToLower(strings.Trim(text, ".!")) {
		case "y", "yes", "true", "ok":
			return true
		case "n", "no", "false":
			return false
		}
	case "number", "integer":
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n
		}
	}
	return text
}

// responses are the user's answers; nil = none.
func (d *dialog) responses() sdk.InputResponseMap {
	if len(d.Answers) == 0 {
		return nil
	}
	responses := make(sdk.InputResponseMap, len(d.Answers))
	for name, a := range d.Answers {
		responses[name] = a
	}
	return responses
}
