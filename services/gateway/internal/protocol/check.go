package protocol

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
)

// Limits of a request, whatever its protocol.
const (
	maxTools       = 128
	maxToolBytes   = 256 << 10 // of all tools together
	maxContext     = 64 << 10  // each call of a tool carries it
	maxMetadata    = 4 << 10
	maxSystem      = 64 << 10
	maxMessageID   = 128
	maxHistory     = 2000 // messages of a conversation
	maxHistoryCall = 128  // calls of one message
	maxCallID      = 128
	maxJSONDepth   = 64
	maxStop        = 4
	maxStopBytes   = 256
	maxFormat      = 64 << 10
)

// reservedTools are the names of tools that the turn loop runs itself.
var reservedTools = []string{"ask_user", "plan", "final_answer"} //nolint:gochecknoglobals // a constant list

func refuse(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}

func tooLong(format string, args ...any) error {
	return apierr.New(apierr.MessageTooLarge, format, args...)
}

// checked returns r in the form in which it is stored, or why it is refused.
func (h *Host) checked(r Request) (Request, error) {
	var err error
	if r, err = checkConversation(r); err != nil {
		return r, err
	}
	for i, m := range r.Request.Messages {
		if len(m.ID) > maxMessageID {
			return r, refuse("messages[%d].id has %d bytes; at most %d are allowed", i, len(m.ID), maxMessageID)
		}
	}
	if len(r.System) > maxSystem {
		return r, tooLong("the instructions of the request have %d bytes; at most %d are allowed", len(r.System), maxSystem)
	}
	if err := checkObject("context", r.Request.Context.Extra.JSON(), maxContext); err != nil {
		return r, err
	}
	if err := checkObject("metadata", r.Metadata, maxMetadata); err != nil {
		return r, err
	}
	if err := checkOptions(r.Request.Options); err != nil {
		return r, err
	}
	r.Request.Tools, err = h.checkTools(r.AgentID, r.Request.Tools)
	return r, err
}

// checkTools returns the tools that the agent does not have itself, with complete schemas.
func (h *Host) checkTools(agentID string, tools []event.RequestTool) ([]event.RequestTool, error) {
	if len(tools) == 0 {
		return tools, nil
	}
	agent, configured := h.Config.Agents[agentID]
	switch {
	case len(tools) > maxTools:
		return nil, refuse("tools has %d entries; at most %d are allowed", len(tools), maxTools)
	case agent.RequestTools == config.RequestToolsRefuse:
		return nil, refuse("agent %s accepts no tools of requests; leave tools out", agentID)
	case !configured, agent.RunsOwnTools():
		return nil, refuse("agent %s runs its own tools and accepts none of requests; leave tools out", agentID)
	}
	own := make([]event.RequestTool, 0, len(tools))
	size := 0
	for i, t := range tools {
		where := fmt.Sprintf("tools[%d]", i)
		if err := h.checkName(where, agent, t.Name); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(tools[:i], func(other event.RequestTool) bool { return other.Name == t.Name }) {
			return nil, refuse("%s.name repeats %s; a name stands for one tool", where, t.Name)
		}
		if size += len(t.Name) + len(t.Description) + len(t.Schema); size > maxToolBytes {
			return nil, tooLong("tools have more than %d bytes together; declare fewer, or with shorter schemas", maxToolBytes)
		}
		if slices.ContainsFunc(agent.ClientTools, func(c config.ClientTool) bool { return c.Name == t.Name }) {
			continue // the operator has described it
		}
		var err error
		if t.Schema, err = checkSchema(where, t); err != nil {
			return nil, err
		}
		own = append(own, t)
	}
	return own, nil
}

// checkName refuses the name of a tool that the agent, or the turn loop, runs.
func (h *Host) checkName(where string, agent config.Agent, name string) error {
	if !id.Valid(name) {
		return refuse("%s.name %.80q must match ^[A-Za-z0-9_-]{1,64}$", where, name)
	}
	_, isAgent := config.AgentOfTool(name)
	server, _, isMCP := h.Config.MCPTool(name)
	listed := func(other string) bool {
		theirs, all, ok := h.Config.MCPTool(other)
		return other == name || isMCP && ok && all && theirs == server
	}
	if isAgent || slices.Contains(reservedTools, name) || slices.ContainsFunc(agent.Tools, listed) {
		return refuse("%s.name %s is the name of a tool of the agent; rename the client's tool", where, name)
	}
	return nil
}

// checkSchema returns the schema of a tool's arguments, of type object.
func checkSchema(where string, t event.RequestTool) (json.RawMessage, error) {
	if len(t.Schema) == 0 {
		return json.RawMessage(`{"type":"object"}`), nil
	}
	schema, err := normalSchema(t.Schema)
	if err != nil {
		return nil, refuse("%s.schema %v", where, err)
	}
	if _, err := tool.CompileSchema(tool.Spec{Name: t.Name, Schema: schema}); err != nil {
		return nil, refuse("%s.schema is not a JSON Schema of type object: %.300v", where, err)
	}
	return json.RawMessage(schema), nil
}

// normalSchema returns a schema as compact JSON. One without a type is of type object: clients leave it out for tools
// without arguments, and providers require it.
func normalSchema(text []byte) ([]byte, error) {
	if codec.NestedDeeper(text, maxJSONDepth) {
		return nil, fmt.Errorf("is nested more than %d levels deep", maxJSONDepth)
	}
	var document map[string]any
	if err := jsonv2.Unmarshal(text, &document); err != nil || document == nil {
		return nil, fmt.Errorf("must be a JSON object such as {\"type\":\"object\",\"properties\":{}}")
	}
	if _, typed := document["type"]; !typed {
		document["type"] = "object"
	}
	return jsonv2.Marshal(document, jsonv2.Deterministic(true))
}

func checkObject(where string, text json.RawMessage, most int) error {
	if len(text) == 0 {
		return nil
	}
	var object map[string]json.RawMessage
	switch {
	case len(text) > most:
		return tooLong("%s has %d bytes; at most %d are allowed", where, len(text), most)
	case codec.NestedDeeper(text, maxJSONDepth):
		return refuse("%s is nested more than %d levels deep", where, maxJSONDepth)
	case jsonv2.Unmarshal(text, &object) != nil || object == nil:
		return refuse("%s must be a JSON object", where)
	}
	return nil
}

// checkOptions checks the ranges of options.
func checkOptions(o event.RequestOptions) error {
	if err := checkRange("options.temperature", o.Temperature, 2); err != nil {
		return err
	}
	if err := checkRange("options.topP", o.TopP, 1); err != nil {
		return err
	}
	if o.MaxTokens < 0 {
		return refuse("options.maxTokens is %d; it must be at least 1", o.MaxTokens)
	}
	if len(o.Stop) > maxStop {
		return refuse("options.stop has %d entries; at most %d are allowed", len(o.Stop), maxStop)
	}
	for i, text := range o.Stop {
		if text == "" || len(text) > maxStopBytes {
			return refuse("options.stop[%d] has %d bytes; 1 to %d are allowed", i, len(text), maxStopBytes)
		}
	}
	if err := checkChoice(o.ToolChoice); err != nil {
		return err
	}
	return checkFormat(o.ResponseFormat)
}

func checkRange(where string, value *float64, most float64) error {
	if value == nil {
		return nil
	}
	if math.IsNaN(*value) || *value < 0 || *value > most {
		return refuse("%s is %v; it must be from 0 to %v", where, *value, most)
	}
	return nil
}

func checkChoice(c *event.ToolChoice) error {
	if c == nil {
		return nil
	}
	switch c.Mode {
	case event.ChooseAuto, event.ChooseNone, event.ChooseRequired:
		if c.Name != "" {
			return refuse("options.toolChoice.name is for mode %q; leave it out", event.ChooseTool)
		}
	case event.ChooseTool:
		if !id.Valid(c.Name) {
			return refuse("options.toolChoice.name %.80q must be the name of a tool", c.Name)
		}
	default:
		return refuse("options.toolChoice.mode is %.40q; use \"auto\", \"none\", \"required\" or \"tool\"", c.Mode)
	}
	return nil
}

func checkFormat(f *event.ResponseFormat) error {
	if f == nil {
		return nil
	}
	switch f.Type {
	case event.FormatText, event.FormatJSON:
		if len(f.Schema) > 0 {
			return refuse("options.responseFormat.schema is for type %q; leave it out", event.FormatSchema)
		}
	case event.FormatSchema:
		if len(f.Schema) == 0 {
			return refuse("options.responseFormat.schema is missing; type %q needs one", event.FormatSchema)
		}
	default:
		return refuse("options.responseFormat.type is %.40q; use \"text\", \"json\" or \"json_schema\"", f.Type)
	}
	if f.Name != "" && !id.Valid(f.Name) {
		return refuse("options.responseFormat.name %.80q must match ^[A-Za-z0-9_-]{1,64}$", f.Name)
	}
	return checkObject("options.responseFormat.schema", f.Schema, maxFormat)
}

// checkConversation checks a conversation, and moves its messages of the system into System.
func checkConversation(r Request) (Request, error) {
	if r.Conversation == nil {
		return r, nil
	}
	if len(r.Conversation) > maxHistory {
		return r, tooLong("messages has %d entries; at most %d are allowed", len(r.Conversation), maxHistory)
	}
	kept := make([]event.HistoryMessage, 0, len(r.Conversation))
	system := []string{}
	if r.System != "" {
		system = append(system, r.System)
	}
	for i, m := range r.Conversation {
		where := fmt.Sprintf("messages[%d]", i)
		if err := checkMessage(where, &m); err != nil {
			return r, err
		}
		if m.Role == event.RoleSystem || m.Role == event.RoleDeveloper {
			system = append(system, m.Content.Text())
			continue
		}
		kept = append(kept, m)
	}
	r.Conversation, r.System = kept, strings.Join(system, "\n\n")
	return r, nil
}

func checkMessage(where string, m *event.HistoryMessage) error {
	m.Content = slices.DeleteFunc(slices.Clone(m.Content), func(p event.InputPart) bool {
		return p.Type == event.ContentText && p.Text == ""
	})
	if len(m.ID) > maxMessageID {
		return refuse("%s.id has %d bytes; at most %d are allowed", where, len(m.ID), maxMessageID)
	}
	if m.Role != event.RoleAssistant && len(m.ToolCalls) > 0 {
		return refuse("%s.toolCalls is for messages of role \"assistant\"", where)
	}
	if m.Role != event.RoleTool && (m.ToolCallID != "" || m.Status != "") {
		return refuse("%s.toolCallId and status are for messages of role \"tool\"", where)
	}
	switch m.Role {
	case event.RoleUser, event.RoleSystem, event.RoleDeveloper:
		if len(m.Content) == 0 {
			return refuse("%s.content is missing or empty", where)
		}
	case event.RoleAssistant:
		if err := checkCalls(where, m.ToolCalls); err != nil {
			return err
		}
	case event.RoleTool:
		if err := checkCallID(where+".toolCallId", m.ToolCallID); err != nil {
			return err
		}
		switch m.Status {
		case "", event.ToolSuccess, event.ToolFailed, event.ToolDenied, event.ToolAborted, event.ToolUnknown:
		default:
			return refuse("%s.status is %.40q, which is not the status of a tool's result", where, m.Status)
		}
	default:
		return refuse("%s.role is %.40q; use \"user\", \"assistant\", \"tool\", \"system\" or \"developer\"", where, m.Role)
	}
	content, err := codec.CheckContent(where+".content", m.Content)
	m.Content = content
	return err
}

func checkCalls(where string, calls []event.HistoryCall) error {
	if len(calls) > maxHistoryCall {
		return refuse("%s.toolCalls has %d entries; at most %d are allowed", where, len(calls), maxHistoryCall)
	}
	for i, c := range calls {
		at := fmt.Sprintf("%s.toolCalls[%d]", where, i)
		if err := checkCallID(at+".id", c.ID); err != nil {
			return err
		}
		if c.Name == "" || len(c.Name) > maxCallID {
			return refuse("%s.name has %d bytes; 1 to %d are allowed", at, len(c.Name), maxCallID)
		}
		if err := checkObject(at+".args", c.Args, math.MaxInt); err != nil {
			return err
		}
	}
	return nil
}

func checkCallID(where, callID string) error {
	if callID == "" || len(callID) > maxCallID {
		return refuse("%s has %d bytes; 1 to %d are allowed", where, len(callID), maxCallID)
	}
	return nil
}
