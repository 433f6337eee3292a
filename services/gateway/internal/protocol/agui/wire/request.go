package wire

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Request is what an input asks of the core.
type Request struct {
	Request      event.AgentRequest // without messages
	Conversation []event.HistoryMessage
	System       string          // the facts that the application gives to the agent
	Metadata     json.RawMessage // see [about]
}

// about is the member "agui" of a request's metadata.
type about struct {
	RunID       string   `json:"runId,omitempty"`
	ParentRunID string   `json:"parentRunId,omitempty"`
	Resumed     []string `json:"resumed,omitempty"` // actions that resume entries answer; tool messages answer the others
}

type metadata struct {
	AGUI about `json:"agui"`
}

// RunID returns the id that a client of AG-UI gave to a run, from the metadata of its request; "" = none did.
func RunID(text json.RawMessage) string { return readMetadata(text).RunID }

func readMetadata(text json.RawMessage) about {
	var m metadata
	if len(text) > 0 && jsonv2.Unmarshal(text, &m) != nil {
		return about{}
	}
	return m.AGUI
}

// Decode implements codec.Codec. The messages are in [Input.Request] alone, since they are a whole conversation.
func (Codec) Decode(text []byte) (event.AgentRequest, error) {
	in, err := DecodeInput(text)
	if err != nil {
		return event.AgentRequest{}, err
	}
	r, err := in.Request()
	return r.Request, err
}

// Request converts the input.
func (in Input) Request() (Request, error) {
	r := Request{Request: event.AgentRequest{ThreadID: in.ThreadID, Tools: in.tools()}, System: in.facts()}
	var err error
	if r.Conversation, err = in.conversation(); err != nil {
		return r, err
	}
	about := about{RunID: in.RunID, ParentRunID: in.ParentRunID}
	spoken := len(r.Conversation) > 0 && r.Conversation[len(r.Conversation)-1].Role == event.RoleUser
	for i, entry := range in.Resume {
		if entry.Status == "cancelled" && spoken {
			continue // a new message closes all actions that wait, also those that have expired
		}
		result, err := entry.result("resume[" + strconv.Itoa(i) + "]")
		if err != nil {
			return r, err
		}
		r.Request.Context.ActionResults = append(r.Request.Context.ActionResults, result)
		about.Resumed = append(about.Resumed, result.ActionID)
	}
	r.Request.Context.Extra = event.NewMembers(in.extra())
	r.Metadata = encode(metadata{about})
	return r, nil
}

// tools returns the client's tools. Without any, a run that answers actions keeps those of the run before it.
func (in Input) tools() []event.RequestTool {
	var tools []event.RequestTool
	for _, t := range in.Tools {
		one := event.RequestTool{Name: t.Name, Description: t.Description}
		if jsontext.Value(t.Parameters).Kind() != jsontext.KindNull {
			one.Schema = t.Parameters
		}
		tools = append(tools, one)
	}
	return tools
}

// facts returns the context of the input as instructions.
func (in Input) facts() string {
	if len(in.Context) == 0 {
		return ""
	}
	lines := []string{"The application gives this context:"}
	for _, c := range in.Context {
		lines = append(lines, "- "+c.Description+": "+c.Value)
	}
	return strings.Join(lines, "\n")
}

// extra returns the context of the request, which templates read: {context.forwardedProps.…} and {context.state.…}.
func (in Input) extra() json.RawMessage {
	members := map[string]json.RawMessage{}
	for name, value := range map[string]json.RawMessage{"forwardedProps": in.ForwardedProps, "state": in.State} {
		if len(value) > 0 && jsontext.Value(value).Kind() != jsontext.KindNull && string(value) != "{}" {
			members[name] = value
		}
	}
	if len(members) == 0 {
		return nil
	}
	return encode(members)
}

// conversation returns the messages that agents read. The messages of subagents are in the results of their calls, and
// activities are for the user.
func (in Input) conversation() ([]event.HistoryMessage, error) {
	all := []event.HistoryMessage{}
	for i, m := range in.Messages {
		if m.SubagentRunID != "" || m.Role == roleReasoning || m.Role == roleActivity {
			continue
		}
		one, err := m.history("messages[" + strconv.Itoa(i) + "]")
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return joinCalls(all), nil
}

// joinCalls moves the calls after the last message of the user that precedes an assistant message into one message, so that
// their results follow all of them: each call has a message of its own in a client of AG-UI.
func joinCalls(all []event.HistoryMessage) []event.HistoryMessage {
	last := len(all) - 1
	for last >= 0 && all[last].Role != event.RoleAssistant {
		last--
	}
	first := last
	for first > 0 && (all[first-1].Role == event.RoleAssistant || all[first-1].Role == event.RoleTool) {
		first--
	}
	if first == last || last < 0 {
		return all
	}
	joined := slices.Clone(all[:first])
	open := -1 // index of the message that gets the calls
	for _, m := range all[first:] {
		if m.Role == event.RoleAssistant && len(m.Content) == 0 && open >= 0 {
			joined[open].ToolCalls = append(slices.Clip(joined[open].ToolCalls), m.ToolCalls...)
			continue
		}
		if m.Role == event.RoleAssistant {
			open = len(joined)
		}
		joined = append(joined, m)
	}
	return joined
}

func (m InMessage) history(where string) (event.HistoryMessage, error) {
	one := event.HistoryMessage{ID: m.ID, Role: m.Role}
	var err error
	if one.Content, err = m.content(where); err != nil {
		return one, err
	}
	for _, c := range m.ToolCalls {
		one.ToolCalls = append(one.ToolCalls, event.HistoryCall{ID: c.ID, Name: c.Function.Name, Args: arguments(c.Function.Arguments)})
	}
	if m.Role == roleTool {
		one.ToolCallID = m.ToolCallID
		if m.Error != "" {
			one.Status = event.ToolFailed
			if len(one.Content) == 0 {
				one.Content = event.InputContent{{Type: event.ContentText, Text: m.Error}}
			}
		}
	}
	return one, nil
}

// arguments returns the arguments of a call; nil = none, or text that is not an object, such as that of a call that was cut.
func arguments(text string) json.RawMessage {
	var object map[string]json.RawMessage
	if jsonv2.Unmarshal([]byte(text), &object) != nil || len(object) == 0 {
		return nil
	}
	return json.RawMessage(text)
}

// content decodes the content of a message. The core checks its parts.
func (m InMessage) content(where string) (event.InputContent, error) {
	switch jsontext.Value(m.Content).Kind() {
	case jsontext.KindInvalid, jsontext.KindNull:
		return nil, nil
	case jsontext.KindString:
		var text string
		if err := jsonv2.Unmarshal(m.Content, &text); err != nil {
			return nil, codec.Explain(err)
		}
		if text == "" {
			return nil, nil
		}
		return event.InputContent{{Type: event.ContentText, Text: text}}, nil
	case jsontext.KindBeginArray:
		var parts []Part
		if err := jsonv2.Unmarshal(m.Content, &parts, jsonv2.WithUnmarshalers(lists)); err != nil {
			return nil, invalid("%s.content is not an array of content parts", where)
		}
		return inputParts(where+".content", parts)
	default:
		return nil, invalid("%s.content must be a string or an array of content parts", where)
	}
}
