package schemas_test

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/schemas"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/goccy/go-yaml"
)

func openAPI(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(schemas.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestOpenAPIIsValid(t *testing.T) {
	t.Parallel()
	if err := openAPI(t).Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestOpenAPIIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	clear(schemas.OpenAPI())
	if !strings.HasPrefix(string(schemas.OpenAPI()), "openapi: 3.0.3\n") {
		t.Error("a caller changed the document for everyone")
	}
}

func TestOpenAPITypesAgreeWithGo(t *testing.T) {
	t.Parallel()
	var doc any
	if err := yaml.Unmarshal(schemas.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	c := comparison{documents{"openapi.yaml": doc}, goConstants(t, "event", "apierr", "historyapi")}
	types := map[string]reflect.Type{
		"AgentRequest": reflect.TypeFor[event.AgentRequest](),
		"Content":      reflect.TypeFor[event.Content](),
		"Usage":        reflect.TypeFor[event.Usage](),
		"Request":      reflect.TypeFor[historyapi.Request](),
		"ActionPage":   reflect.TypeFor[historyapi.ActionPage](),
		"Thread":       reflect.TypeFor[historyapi.Thread](),
		"ThreadPage":   reflect.TypeFor[historyapi.ThreadPage](),
		"MessagePage":  reflect.TypeFor[historyapi.MessagePage](),
		"EventPage":    reflect.TypeFor[historyapi.EventPage](),
		"ErrorCode":    reflect.TypeFor[apierr.Code](),
	}
	for name, typ := range types {
		c.compare(t, name, typ, c.docs.follow(t, "openapi.yaml", "#/components/schemas/"+name))
	}
	c.compare(t, "Error", reflect.TypeFor[event.Error](), c.docs.follow(t, "openapi.yaml", "#/components/schemas/Error"),
		"event", "id", "requestId", "timestamp")
}

func TestOpenAPIListsTheEventsThatClientsMaySee(t *testing.T) {
	t.Parallel()
	doc := openAPI(t)
	var visible []any
	includable := []any{"extended"}
	for _, name := range event.Names() {
		if name.IsInternal() && name != event.NameToolOutput {
			continue
		}
		visible = append(visible, string(name))
		if !name.IsNative() {
			includable = append(includable, string(name))
		}
	}
	if got := doc.Components.Schemas["EventName"].Value.Enum; !sameSet(got, visible) {
		t.Errorf("EventName lists %v, want %v", got, visible)
	}
	include := doc.Components.Parameters["include"].Value.Schema.Value.Items.Value.Enum
	if !sameSet(include, includable) {
		t.Errorf("include lists %v, want %v", include, includable)
	}
}

func TestOpenAPIAnswersEveryCode(t *testing.T) {
	t.Parallel()
	doc := openAPI(t)
	documented := map[string]bool{}
	for _, response := range doc.Components.Responses {
		head, _, _ := strings.Cut(*response.Value.Description, ".")
		for code := range strings.SplitSeq(head, ", ") {
			documented[code] = true
		}
	}
	for _, code := range apierr.Codes() {
		if !documented[string(code)] {
			t.Errorf("no response of the document carries %s", code)
		}
	}
}

func TestOpenAPIErrorsAreJSONAndTraced(t *testing.T) {
	t.Parallel()
	for path, item := range openAPI(t).Paths.Map() {
		if !strings.HasPrefix(path, "/v1/") {
			continue
		}
		for method, operation := range item.Operations() {
			responses := operation.Responses.Map()
			for _, status := range []string{"401", "429", "500"} {
				if responses[status] == nil {
					t.Errorf("%s %s does not say what %s means", method, path, status)
				}
			}
			for status, response := range responses {
				where := method + " " + path + " " + status
				if response.Value.Headers["X-Trace-Id"] == nil {
					t.Errorf("%s has no X-Trace-Id", where)
				}
				if status < "400" {
					continue
				}
				if body := response.Value.Content.Get("application/json"); body == nil || body.Schema.Ref != "#/components/schemas/Error" {
					t.Errorf("%s has no error body", where)
				}
			}
		}
	}
}

func TestOpenAPIRoutes(t *testing.T) {
	t.Parallel()
	want := []string{
		"/a2a/{agentName}", "/a2a/{agentName}/.well-known/agent-card.json", "/a2a/{agentName}/extendedAgentCard",
		"/a2a/{agentName}/tasks", "/a2a/{agentName}/tasks/{taskId}", "/a2a/{agentName}/tasks/{taskId}/pushNotificationConfigs",
		"/a2a/{agentName}/tasks/{taskId}/pushNotificationConfigs/{configId}", "/a2a/{agentName}/{operation}",
		"/agui/{agentName}", "/agui/{agentName}/cancel", "/agui/{agentName}/connect", "/agui/{agentName}/info",
		"/ai-sdk/{agentName}", "/ai-sdk/{agentName}/{chatId}/stop", "/ai-sdk/{agentName}/{chatId}/stream",
		"/api/v1/agent/options", "/api/v1/health", "/api/v1/models", "/api/v1/oneshot/query",
		"/api/v1/oneshot/query/stream", "/api/v1/runtime-settings", "/api/v1/sessions", "/api/v1/sessions/abort",
		"/api/v1/sessions/create", "/api/v1/sessions/delete", "/api/v1/sessions/details",
		"/api/v1/sessions/events", "/api/v1/sessions/events/latest", "/api/v1/sessions/events/stream",
		"/api/v1/sessions/generate-summary", "/api/v1/sessions/model", "/api/v1/sessions/query",
		"/api/v1/sessions/query/stream", "/api/v1/sessions/share", "/api/v1/sessions/status",
		"/api/v1/sessions/update", "/api/v1/sessions/workspace/files", "/api/v1/sessions/workspace/search", "/api/v1/sessions/workspace/validate",
		"/api/v1/share/config", "/api/v1/version", "/api/v1/workspace/files",
		"/api/v1/workspace/search", "/api/v1/workspace/validate",
		"/healthz",
		"/langgraph/assistants/count", "/langgraph/assistants/search", "/langgraph/assistants/{assistantId}",
		"/langgraph/assistants/{assistantId}/graph", "/langgraph/assistants/{assistantId}/schemas",
		"/langgraph/runs", "/langgraph/runs/stream", "/langgraph/runs/wait",
		"/langgraph/threads", "/langgraph/threads/search", "/langgraph/threads/{threadId}", "/langgraph/threads/{threadId}/commands", "/langgraph/threads/{threadId}/history",
		"/langgraph/threads/{threadId}/runs", "/langgraph/threads/{threadId}/runs/stream", "/langgraph/threads/{threadId}/runs/wait",
		"/langgraph/threads/{threadId}/runs/{requestId}", "/langgraph/threads/{threadId}/runs/{requestId}/cancel",
		"/langgraph/threads/{threadId}/runs/{requestId}/join", "/langgraph/threads/{threadId}/runs/{requestId}/stream",
		"/langgraph/threads/{threadId}/state", "/langgraph/threads/{threadId}/stream", "/langgraph/threads/{threadId}/stream/events",
		"/metrics", "/openai/v1/chat/completions", "/openai/v1/chat/completions/{completionId}",
		"/openai/v1/models", "/openai/v1/models/{model}", "/openai/v1/responses", "/openai/v1/responses/{responseId}",
		"/openai/v1/responses/{responseId}/cancel", "/openai/v1/responses/{responseId}/input_items", "/openapi.yaml", "/readyz",
		"/streams/threads/{threadId}", "/streams/{requestId}",
		"/v1/actions", "/v1/agents", "/v1/agents/{agentName}/requests", "/v1/agents/{agentName}/stream",
		"/v1/requests/{requestId}", "/v1/requests/{requestId}/abort", "/v1/requests/{requestId}/follow-up",
		"/v1/requests/{requestId}/steer", "/v1/requests/{requestId}/stream",
		"/v1/threads", "/v1/threads/{threadId}", "/v1/threads/{threadId}/events", "/v1/threads/{threadId}/messages",
		"/v1/threads/{threadId}/objects/{objectId}", "/v1/threads/{threadId}/stream", "/v1/ws", "/ws",
	}
	if got := slices.Sorted(maps.Keys(openAPI(t).Paths.Map())); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func sameSet(a, b []any) bool {
	set := map[any]bool{}
	for _, v := range a {
		set[v] = true
	}
	for _, v := range b {
		if !set[v] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestOpenAPITellsWhyABodyIsRefused(t *testing.T) {
	t.Parallel()
	for path, item := range openAPI(t).Paths.Map() {
		if item.Post == nil || item.Post.RequestBody == nil {
			continue
		}
		codes := []string{"400", "413", "415"}
		if item.Post.Parameters.GetByInAndName("header", "Idempotency-Key") != nil {
			codes = append(codes, "422")
		}
		for _, code := range codes {
			if item.Post.Responses.Value(code) == nil {
				t.Errorf("POST %s: nothing is said of %s", path, code)
			}
		}
	}
}
