package langgraph

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/agentbus/agentbus/services/gateway/internal/protocol"
)

// assistant is an agent as an assistant.
type assistant struct {
	AssistantID string            `json:"assistant_id"`
	GraphID     string            `json:"graph_id"`
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Config      struct{}          `json:"config"`
	Context     struct{}          `json:"context"`
	Metadata    map[string]string `json:"metadata"`
	Version     int               `json:"version"`
	CreatedAt   time.Time         `json:"created_at"` // not known: the start of Unix time
	UpdatedAt   time.Time         `json:"updated_at"`
}

func newAssistant(name, description string) assistant {
	at := time.Unix(0, 0).UTC()
	return assistant{
		AssistantID: name, GraphID: name, Name: name, Description: description, Metadata: map[string]string{"created_by": "system"},
		Version: 1, CreatedAt: at, UpdatedAt: at,
	}
}

// assistants lists the agents that the caller may address.
func (s *Server) assistants(x *protocol.Exchange) []assistant {
	all := []assistant{}
	for _, name := range slices.Sorted(maps.Keys(s.Config.Agents)) {
		all = append(all, newAssistant(name, s.Config.Agents[name].Description))
	}
	for _, r := range s.Remotes.List(x.Principal().Tenant) {
		all = append(all, newAssistant(r.ID, ""))
	}
	return all
}

// assistantQuery selects assistants.
type assistantQuery struct {
	GraphID  string                     `json:"graph_id"`
	Name     string                     `json:"name"`
	Metadata map[string]json.RawMessage `json:"metadata"`
	Limit    int                        `json:"limit"`
	Offset   int                        `json:"offset"`
}

func (s *Server) selected(x *protocol.Exchange) ([]assistant, assistantQuery, error) {
	var q assistantQuery
	if err := read(x, &q); err != nil {
		return nil, q, err
	}
	found := slices.DeleteFunc(s.assistants(x), func(a assistant) bool {
		other := q.GraphID != "" && a.GraphID != q.GraphID || q.Name != "" && a.Name != q.Name
		for name, value := range q.Metadata {
			other = other || string(value) != `"`+a.Metadata[name]+`"`
		}
		return other
	})
	return found, q, nil
}

func (s *Server) searchAssistants(x *protocol.Exchange) error {
	found, q, err := s.selected(x)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, page(found, q.Offset, cmp.Or(q.Limit, 10)))
}

func (s *Server) countAssistants(x *protocol.Exchange) error {
	found, _, err := s.selected(x)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, len(found))
}

// page returns a part of a list.
func page[T any](all []T, offset, limit int) []T {
	offset = min(max(offset, 0), len(all))
	return all[offset:min(offset+max(limit, 0), len(all))]
}

func (s *Server) getAssistant(x *protocol.Exchange) error {
	for _, a := range s.assistants(x) {
		if a.AssistantID == x.Param("assistantId") {
			return x.Reply(http.StatusOK, a)
		}
	}
	return noAssistant(x.Param("assistantId"))
}

// messagesSchema describes the state: a list of messages.
var messagesSchema = map[string]any{
	"type": "object", "properties": map[string]any{"messages": map[string]any{"type": "array", "items": map[string]any{"type": "object"}}},
}

func (s *Server) getSchemas(x *protocol.Exchange) error {
	name := x.Param("assistantId")
	if !x.HasAgent(name) {
		return noAssistant(name)
	}
	object := map[string]any{"type": "object"}
	return x.Reply(http.StatusOK, map[string]any{
		"graph_id": name, "input_schema": messagesSchema, "output_schema": messagesSchema, "state_schema": messagesSchema,
		"config_schema": object, "context_schema": object,
	})
}

// getGraph returns the graph that an agent looks like: it calls tools until it has answered.
func (s *Server) getGraph(x *protocol.Exchange) error {
	name := x.Param("assistantId")
	if !x.HasAgent(name) {
		return noAssistant(name)
	}
	type node struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data any    `json:"data"`
	}
	type edge struct {
		Source      string `json:"source"`
		Target      string `json:"target"`
		Conditional bool   `json:"conditional,omitempty"`
	}
	runnable := func(id string) node { return node{id, "runnable", map[string]any{"name": id}} }
	return x.Reply(http.StatusOK, map[string]any{
		"nodes": []node{{"__start__", "schema", "__start__"}, runnable("agent"), runnable("tools"), {"__end__", "schema", "__end__"}},
		"edges": []edge{{"__start__", "agent", false}, {"agent", "tools", true}, {"agent", "__end__", true}, {"tools", "agent", false}},
	})
}
