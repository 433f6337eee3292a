package main

import (
	"context"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addAskingFixtures adds the tools that ask the client for something while they run.
func addAskingFixtures(s *sdk.Server) {
	fixture(s, "test_sampling", "Has the client's model answer a prompt.",
		`{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`, samples)
	fixture(s, "test_elicitation", "Asks the user for a name.",
		`{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`, elicits)
	fixture(s, "test_elicitation_sep1034_defaults", "Asks with a default for each primitive type.", noArguments,
		asks("Please review and update the form fields with defaults", formWithDefaults))
	fixture(s, "test_elicitation_sep1330_enums", "Asks with each form of a choice.", noArguments,
		asks("Please select options from the enum fields", formWithEnums))
}

//nolint:staticcheck // the suite still tests sampling, which the next protocol version gives up
func samples(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		Prompt string `json:"prompt"`
	}
	if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
		return nil, err
	}
	answer, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{
		Messages:  []*sdk.SamplingMessage{{Role: "user", Content: &sdk.TextContent{Text: in.Prompt}}},
		MaxTokens: 100,
	})
	if err != nil {
		return nil, fmt.Errorf("sampling: %w", err)
	}
	text, ok := answer.Content.(*sdk.TextContent)
	if !ok {
		return words("LLM response: no text"), nil
	}
	return words("LLM response: %s", text.Text), nil
}

func elicits(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct {
		Message string `json:"message"`
	}
	if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
		return nil, err
	}
	return asks(in.Message, `{"type":"object","properties":{
		"username":{"type":"string","description":"User's response"},
		"email":{"type":"string","description":"User's email address"}
	},"required":["username","email"]}`)(ctx, r)
}

// asks is a tool that shows the user a form.
func asks(message, form string) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		answer, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: message, RequestedSchema: json.RawMessage(form)})
		if err != nil {
			return nil, fmt.Errorf("elicitation: %w", err)
		}
		content, err := json.Marshal(answer.Content)
		if err != nil {
			return nil, err
		}
		return words("Elicitation completed: action=%s, content=%s", answer.Action, content), nil
	}
}

const formWithDefaults = `{"type":"object","properties":{
	"name":{"type":"string","description":"User name","default":"John Doe"},
	"age":{"type":"integer","description":"User age","default":30},
	"score":{"type":"number","description":"User score","default":95.5},
	"status":{"type":"string","description":"User status","enum":["active","inactive","pending"],"default":"active"},
	"verified":{"type":"boolean","description":"Verification status","default":true}
},"required":[]}`

const formWithEnums = `{"type":"object","properties":{
	"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
	"titledSingle":{"type":"string","oneOf":[
		{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
	"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
	"untitledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"string","enum":["option1","option2","option3"]}},
	"titledMulti":{"type":"array","minItems":1,"maxItems":3,"items":{"anyOf":[
		{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}
},"required":[]}`
