package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The fixtures are what @modelcontextprotocol/conformance looks for in a server, by the names and texts that its scenarios
// document. They exercise the protocol, never the hub.

func addFixtures(s *sdk.Server) {
	addContentFixtures(s)
	addAskingFixtures(s)
	addResourceFixtures(s)
	addPromptFixtures(s)
	addStatelessFixtures(s)
}

func fixtureOptions(o *sdk.ServerOptions) {
	o.CompletionHandler = func(context.Context, *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
		return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{}}}, nil
	}
	o.SubscribeHandler = func(context.Context, *sdk.SubscribeRequest) error { return nil }
	o.UnsubscribeHandler = func(context.Context, *sdk.UnsubscribeRequest) error { return nil }
}

const noArguments = `{"type":"object","properties":{}}`

// fixture adds a tool.
func fixture(s *sdk.Server, name, description, schema string, do sdk.ToolHandler) {
	s.AddTool(&sdk.Tool{Name: name, Description: description, InputSchema: json.RawMessage(schema)}, do)
}

// constant adds a tool that always gives the same.
func constant(s *sdk.Server, name, description string, content ...sdk.Content) {
	fixture(s, name, description, noArguments, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: content}, nil
	})
}

func words(format string, args ...any) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// The smallest image and sound.
const (
	pixel   = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
	silence = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
)

func decoded(text string) []byte {
	data, _ := base64.StdEncoding.DecodeString(text) // a constant of this file; the suite would show a mistake
	return data
}

func embedded(uri, text string) sdk.Content {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: "text/plain", Text: text}}
}

func addContentFixtures(s *sdk.Server) {
	image := &sdk.ImageContent{Data: decoded(pixel), MIMEType: "image/png"}
	constant(s, "test_simple_text", "Gives a text.", &sdk.TextContent{Text: "This is a simple text response for testing."})
	constant(s, "test_image_content", "Gives an image.", image)
	constant(s, "test_audio_content", "Gives a sound.", &sdk.AudioContent{Data: decoded(silence), MIMEType: "audio/wav"})
	constant(s, "test_embedded_resource", "Gives a resource.",
		embedded("test://embedded-resource", "This is an embedded resource content."))
	constant(s, "test_multiple_content_types", "Gives a text, an image and a resource.",
		&sdk.TextContent{Text: "Multiple content types test:"}, image,
		embedded("test://mixed-content-resource", `{"test":"data","value":123}`))
	fixture(s, "test_error_handling", "Fails.", noArguments, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		failed := words("This tool intentionally returns an error for testing")
		failed.IsError = true
		return failed, nil
	})
	fixture(s, "test_tool_with_logging", "Logs while it runs.", noArguments, logs)
	fixture(s, "test_tool_with_progress", "Reports progress.", noArguments, progresses)
	fixture(s, "test_reconnection", "Ends its stream before it answers.", noArguments, reconnects)
	fixture(s, "json_schema_2020_12_tool", "Has a schema with every keyword that must arrive as it is.", fullSchema, echoes)
}

// fullSchema has the keywords of JSON Schema 2020-12 that a server must not lose (SEP-1613).
const fullSchema = `{
	"$schema": "https://json-schema.org/draft/2020-12/schema",
	"type": "object",
	"$defs": {"address": {
		"$anchor": "addressDef", "type": "object",
		"properties": {"street": {"type": "string"}, "city": {"type": "string"}}
	}},
	"properties": {
		"name": {"type": "string"},
		"address": {"$ref": "#/$defs/address"},
		"contactMethod": {"type": "string", "enum": ["phone", "email"]},
		"phone": {"type": "string"},
		"email": {"type": "string"}
	},
	"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
	"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
	"then": {"required": ["phone"]},
	"else": {"required": ["email"]},
	"additionalProperties": false
}`

func echoes(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	return words("called with %s", r.Params.Arguments), nil
}

// step is the pause between two notifications of a fixture.
const step = 50 * time.Millisecond

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func logs(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	for _, line := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
		//nolint:staticcheck // the suite still tests what the next protocol version gives up
		if err := r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: line}); err != nil {
			return nil, err
		}
		if err := pause(ctx, step); err != nil {
			return nil, err
		}
	}
	return words("Tool with logging executed successfully"), nil
}

func progresses(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	token := r.Params.GetProgressToken()
	for _, done := range []float64{0, 50, 100} {
		err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
			ProgressToken: token, Progress: done, Total: 100, Message: fmt.Sprintf("Completed step %.0f of 100", done),
		})
		if err != nil {
			return nil, err
		}
		if err := pause(ctx, step); err != nil {
			return nil, err
		}
	}
	return words("%v", token), nil
}

// reconnects ends the stream that its answer would come on (SEP-1699): the client comes back for it.
func reconnects(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	if r.Extra != nil && r.Extra.CloseSSEStream != nil {
		r.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
	}
	if err := pause(ctx, 2*step); err != nil {
		return nil, err
	}
	return words("Reconnection test completed successfully."), nil
}
