package main

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addResourceFixtures adds resources that can be listed, read and watched.
func addResourceFixtures(s *sdk.Server) {
	for _, c := range []sdk.ResourceContents{
		{URI: "test://static-text", MIMEType: "text/plain", Text: "This is the content of the static text resource."},
		{URI: "test://static-binary", MIMEType: "image/png", Blob: decoded(pixel)},
		{URI: "test://watched-resource", MIMEType: "text/plain", Text: "Watched resource content"},
	} {
		name := strings.TrimPrefix(c.URI, "test://")
		s.AddResource(&sdk.Resource{Name: name, URI: c.URI, MIMEType: c.MIMEType, Description: "For conformance tests: " + name + "."},
			func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
				return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{&c}}, nil
			})
	}
	s.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "template", URITemplate: "test://template/{id}/data", MIMEType: "application/json",
		Description: "For conformance tests: a resource with a parameter.",
	}, readTemplate)
}

func readTemplate(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
	text, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
	if err != nil {
		return nil, err
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{
		{URI: r.Params.URI, MIMEType: "application/json", Text: string(text)},
	}}, nil
}

// addPromptFixtures adds prompts with and without arguments, resources and images.
func addPromptFixtures(s *sdk.Server) {
	prompt(s, "test_simple_prompt", nil, func(map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.TextContent{Text: "This is a simple prompt for testing."}}
	})
	prompt(s, "test_prompt_with_arguments", []string{"arg1", "arg2"}, func(args map[string]string) []sdk.Content {
		return []sdk.Content{&sdk.TextContent{Text: "Prompt with arguments: arg1='" + args["arg1"] + "', arg2='" + args["arg2"] + "'"}}
	})
	prompt(s, "test_prompt_with_embedded_resource", []string{"resourceUri"}, func(args map[string]string) []sdk.Content {
		return []sdk.Content{
			embedded(args["resourceUri"], "Embedded resource content for testing."),
			&sdk.TextContent{Text: "Please process the embedded resource above."},
		}
	})
	prompt(s, "test_prompt_with_image", nil, func(map[string]string) []sdk.Content {
		return []sdk.Content{
			&sdk.ImageContent{Data: decoded(pixel), MIMEType: "image/png"},
			&sdk.TextContent{Text: "Please analyze the image above."},
		}
	})
}

// prompt adds a prompt whose messages are the user's, one for each content.
func prompt(s *sdk.Server, name string, arguments []string, say func(args map[string]string) []sdk.Content) {
	p := &sdk.Prompt{Name: name, Description: "For conformance tests: " + name + "."}
	for _, argument := range arguments {
		p.Arguments = append(p.Arguments, &sdk.PromptArgument{Name: argument, Description: "Argument " + argument + ".", Required: true})
	}
	s.AddPrompt(p, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		var messages []*sdk.PromptMessage
		for _, content := range say(r.Params.Arguments) {
			messages = append(messages, &sdk.PromptMessage{Role: "user", Content: content})
		}
		return &sdk.GetPromptResult{Messages: messages}, nil
	})
}
