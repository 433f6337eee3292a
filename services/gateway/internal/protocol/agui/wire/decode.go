package wire

import (
	"encoding/json"
	"strings"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/services/gateway/internal/codec"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of an input.
const (
	maxDepth    = 64
	maxMessages = 2000 // AG-UI clients send the whole conversation with each run
	maxParts    = 100
	maxCalls    = 128
	maxTools    = 128
	maxContext  = 100
	maxResume   = 100
	maxRunID    = 128 // bytes
)

// Input is a RunAgentInput. Unknown members are ignored, as the published client does.
type Input struct {
	ThreadID       string          `json:"threadId"`
	RunID          string          `json:"runId"`
	ParentRunID    string          `json:"parentRunId"`
	State          json.RawMessage `json:"state"`
	Messages       []InMessage     `json:"messages"`
	Tools          []Tool          `json:"tools"`
	Context        []ContextItem   `json:"context"`
	ForwardedProps json.RawMessage `json:"forwardedProps"`
	Resume         []ResumeEntry   `json:"resume"`
}

// InMessage is a message that a client sends.
type InMessage struct {
	ID            string          `json:"id"`
	Role          string          `json:"role"`
	Content       json.RawMessage `json:"content"`
	ToolCalls     []InCall        `json:"toolCalls"`
	ToolCallID    string          `json:"toolCallId"`
	Error         string          `json:"error"`
	SubagentRunID string          `json:"subagentRunId"`
}

// InCall is a call in a message that a client sends.
type InCall struct {
	ID       string       `json:"id"`
	Function FunctionCall `json:"function"`
}

// Tool is a tool that the client runs.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// ContextItem is a fact that the client gives to the agent.
type ContextItem struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// ResumeEntry answers an interrupt.
type ResumeEntry struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status"` // resolved, cancelled
	Payload     json.RawMessage `json:"payload"`
}

const example = `{"threadId":"t1","runId":"r1","messages":[{"id":"m1","role":"user","content":"hi"}],"tools":[],"context":[]}`

// DecodeInput reads a RunAgentInput. Its error is a *apierr.Error with InvalidMessageFormat that names the wrong member.
func DecodeInput(text []byte) (Input, error) {
	var in Input
	if jsontext.Value(text).Kind() != jsontext.KindBeginObject {
		return in, invalid("the body must be a RunAgentInput such as %s", example)
	}
	if codec.NestedDeeper(text, maxDepth) {
		return in, invalid("the body is nested more than %d levels deep", maxDepth)
	}
	if err := jsonv2.Unmarshal(text, &in, jsonv2.WithUnmarshalers(lists)); err != nil {
		return in, codec.Explain(err)
	}
	return in, in.check()
}

// check checks what the types do not: ids, roles and statuses.
func (in Input) check() error {
	if !id.Valid(in.ThreadID) {
		return invalid("threadId %.80q must match ^[A-Za-z0-9_-]{1,64}$", in.ThreadID)
	}
	if len(in.RunID) > maxRunID {
		return invalid("runId is longer than %d bytes", maxRunID)
	}
	for i, m := range in.Messages {
		switch m.Role {
		case roleUser, roleAssistant, roleTool, roleReasoning, roleActivity, "system", "developer":
		default:
			return invalid("messages[%d].role is %.40q; use one of AG-UI's roles", i, m.Role)
		}
	}
	seen := make(map[string]bool, len(in.Resume))
	for i, r := range in.Resume {
		switch {
		case !r.valid():
			return invalid("resume[%d].interruptId %.80q is not the id of an interrupt", i, r.InterruptID)
		case seen[r.InterruptID]:
			return invalid("resume[%d] repeats interruptId %s; send one entry for each interrupt", i, r.InterruptID)
		case r.Status != "resolved" && r.Status != "cancelled":
			return invalid("resume[%d].status is %.40q; use \"resolved\" or \"cancelled\"", i, r.Status)
		}
		seen[r.InterruptID] = true
	}
	return nil
}

// valid reports whether the entry has the id of an interrupt: the kind of an action, and its id.
func (r ResumeEntry) valid() bool {
	kind, actionID, _ := strings.Cut(r.InterruptID, ":")
	switch event.ContinuationKind(kind) {
	case event.ContinueApproval, event.ContinueInput, event.ContinueTool:
		return id.Valid(actionID)
	default:
		return false
	}
}

// lists stops at the first entry too many, before a small body becomes a large one in memory.
var lists = jsonv2.JoinUnmarshalers(
	codec.AtMost[InMessage](maxMessages, ""), codec.AtMost[InCall](maxCalls, ""), codec.AtMost[Tool](maxTools, ""), codec.AtMost[ContextItem](maxContext, ""),
	codec.AtMost[ResumeEntry](maxResume, ""), codec.AtMost[Part](maxParts, ""),
)

func invalid(format string, args ...any) error {
	return apierr.New(apierr.InvalidMessageFormat, format, args...)
}
