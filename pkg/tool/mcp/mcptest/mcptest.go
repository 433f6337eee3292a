// Package mcptest is an MCP server for tests: its tools do what a client must be able to deal with.
package mcptest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Pixel is a PNG image of one pixel.
func Pixel() []byte {
	data, err := base64.StdEncoding.DecodeString(
		"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
	if err != nil {
		panic(err)
	}
	return data
}

// addition is strict, as tooltest wants it.
const addition = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}`

const anything = `{"type":"object"}`

// handler is a tool without its arguments' type.
type handler = func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error)

// New returns a server with these tools:
//
//   - add: {a, b}; read-only
//   - slow: waits for seconds, or until it is cancelled, and then calls cancelled
//   - count: reports progress three times, and waits as slow does
//   - emit: emits {n} events of type step by progress notifications, and one that is refused
//   - picture: an image, a text and an embedded file
//   - fail: an error of the tool's own
//   - structured: structured content alone
//   - meta: the _meta that it was called with, as JSON; idempotent
//   - grow: has the server offer the tool "more", too
//   - spawn: the number of a process that outlives its own
//   - exit: ends the process of the server
//   - order: asks for a size and a confirmation, both at once where the protocol can, and names the answers
//   - book: asks for a name in the middle of the call, where the protocol can
//   - visit: sends the user to a page
func New(cancelled func()) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "mcptest", Version: "1"}, nil)
	add := func(name, schema string, hints *sdk.ToolAnnotations, do handler) {
		s.AddTool(&sdk.Tool{Name: name, Description: "For tests: " + name + ".", InputSchema: json.RawMessage(schema), Annotations: hints}, do)
	}
	add("add", addition, &sdk.ToolAnnotations{ReadOnlyHint: true}, sum)
	add("slow", anything, nil, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if wait(ctx) {
			cancelled()
		}
		return text("waited"), nil
	})
	add("count", anything, nil, count)
	add("emit", anything, nil, emit)
	add("picture", anything, nil, picture)
	add("fail", anything, nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		failed := text("the disk is full")
		failed.IsError = true
		return failed, nil
	})
	add("structured", anything, nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: map[string]any{"degrees": 21}}, nil
	})
	add("meta", anything, &sdk.ToolAnnotations{IdempotentHint: true}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		data, err := json.Marshal(r.Params.Meta)
		return text(string(data)), err
	})
	add("grow", anything, nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		add("more", anything, nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("more"), nil })
		return text("grown"), nil
	})
	add("spawn", anything, nil, spawn)
	add("exit", anything, nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		os.Exit(3)
		return text("not reached"), nil
	})
	add("order", anything, nil, order)
	add("book", anything, nil, book)
	shelve(s)
	add("visit", anything, nil, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return asks(r, sdk.InputRequestMap{"page": &sdk.ElicitParams{Mode: "url", Message: "Log in", URL: "https://example.com/login", ElicitationID: "e1"}})
	})
	return s
}

// shelve adds resources, a template and a prompt.
func shelve(s *sdk.Server) {
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		contents := &sdk.ResourceContents{URI: r.Params.URI, MIMEType: "text/plain", Text: "text of " + r.Params.URI}
		if r.Params.URI == "test://pixel" {
			contents = &sdk.ResourceContents{URI: r.Params.URI, MIMEType: "image/png", Blob: Pixel()}
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
	}
	s.AddResource(&sdk.Resource{URI: "test://notes", Name: "notes"}, read)
	s.AddResource(&sdk.Resource{URI: "test://pixel", Name: "pixel", MIMEType: "image/png"}, read)
	s.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: "test://page/{n}", Name: "page"}, read)
	s.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "name", Required: true}}},
		func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
			return &sdk.GetPromptResult{Description: "A greeting", Messages: []*sdk.PromptMessage{
				{Role: "user", Content: &sdk.TextContent{Text: "Greet " + r.Params.Arguments["name"]}},
				{Role: "user", Content: &sdk.ImageContent{MIMEType: "image/png", Data: Pixel()}},
			}}, nil
		})
}

// Old has a server refuse protocol version 2026-07-28, so that it sends its questions as requests.
func Old(s *sdk.Server) *sdk.Server {
	s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == "server/discover" {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "unknown method"}
			}
			return next(ctx, method, r)
		}
	})
	return s
}

// Form is a question with one member.
func Form(message, member, kind string) *sdk.ElicitParams {
	return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{member: map[string]any{"type": kind}}, "required": []any{member},
	}}
}

func order(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return asks(r, sdk.InputRequestMap{"a": Form("Which size?", "size", "integer"), "b": Form("Really?", "sure", "boolean")})
}

// asks returns questions, or the answers to them.
func asks(r *sdk.CallToolRequest, questions sdk.InputRequestMap) (*sdk.CallToolResult, error) {
	if r.Params.InputResponses == nil {
		return &sdk.CallToolResult{InputRequests: questions, RequestState: "state of " + r.Params.Name}, nil
	}
	var answers []string
	for name := range questions {
		given, _ := r.Params.InputResponses[name].(*sdk.ElicitResult)
		if given == nil {
			return nil, errors.New("no answer to " + name)
		}
		answers = append(answers, fmt.Sprint(name, " ", given.Action, " ", given.Content))
	}
	slices.Sort(answers)
	return text(strings.Join(answers, ", ") + " with " + r.Params.RequestState), nil
}

func book(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	note := &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1, Message: "looking"}
	note.Meta = sdk.Meta{"agentbus/event": map[string]any{"type": "looking"}}
	_ = r.Session.NotifyProgress(ctx, note)
	answer, err := r.Session.Elicit(ctx, Form("Your name?", "name", "string"))
	if err != nil {
		return nil, err
	}
	note.Meta = sdk.Meta{"agentbus/event": map[string]any{"type": "answered"}}
	_ = r.Session.NotifyProgress(ctx, note)
	return text(fmt.Sprint(answer.Action, " ", answer.Content["name"])), nil
}

func text(s string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
}

func sum(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
		return nil, err
	}
	return text(strconv.Itoa(in.A + in.B)), nil
}

func count(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	for i, message := range []string{"one", "", "three"} {
		err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: r.Params.GetProgressToken(), Progress: float64(i + 1), Total: 3, Message: message,
		})
		if err != nil {
			return nil, err
		}
	}
	wait(ctx)
	return text("counted"), nil
}

func emit(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		N int `json:"n"`
	}
	if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
		return nil, err
	}
	note := &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Message: `::event {"type":"first","data":{"by":"line"}}`}
	for i := range in.N + 2 {
		note.Progress = float64(i + 1)
		if err := r.Session.NotifyProgress(ctx, note); err != nil {
			return nil, err
		}
		note.Message = ""
		note.Meta = sdk.Meta{"agentbus/event": map[string]any{"type": "step", "data": map[string]any{"n": i}}}
		if i == in.N {
			note.Meta = sdk.Meta{"agentbus/event": map[string]any{"type": "done"}}
		}
	}
	return text("emitted"), nil
}

// wait waits until ctx is cancelled, and reports whether it was. It does not wait for ever: a client that ends may take the
// word of it along.
func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	case <-time.After(4 * time.Second):
		return false
	}
}

func picture(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.TextContent{Text: "a pixel"},
		&sdk.ImageContent{MIMEType: "image/png", Data: Pixel()},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///notes.bin", MIMEType: "application/octet-stream", Blob: []byte{0, 1}}},
	}}, nil
}

func spawn(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	child := exec.Command("sleep", "600")
	if err := child.Start(); err != nil {
		return nil, err
	}
	return text(strconv.Itoa(child.Process.Pid)), nil
}

// Handler serves a server by streamable HTTP. Each handler has separate sessions.
func Handler(s *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{SessionTimeout: time.Minute})
}

// Environment is the variable that makes a test's own binary a server: see [Main].
const Environment = "AGENTBUS_MCPTEST"

// Main serves over standard input and output, and reports true, when the variable [Environment] is set: a TestMain that
// calls it has a server in its own binary.
func Main() bool {
	if os.Getenv(Environment) == "" {
		return false
	}
	if err := New(func() {}).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		os.Exit(1)
	}
	return true
}
