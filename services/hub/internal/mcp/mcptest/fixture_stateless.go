package main

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// addStatelessFixtures adds the tools by which the suite checks version 2026-07-28.
func addStatelessFixtures(s *sdk.Server) {
	fixture(s, "test_missing_capability", "Needs the client's model.", noArguments, needsSampling)
	fixture(s, "test_streaming_elicitation", "Gives a result on a stream.", noArguments, progresses)
	fixture(s, "test_logging_tool", "Logs once.", noArguments, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		//nolint:staticcheck // the suite checks that nothing arrives that was not asked for
		return words("logged"), r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: "once"})
	})
	fixture(s, "test_x_mcp_header", "Has an argument that is a header, too.", `{"type":"object","properties":{
		"region":{"type":"string","x-mcp-header":"Region"},"level":{"type":"integer"}}}`, echoes)
	fixture(s, "test_trigger_tool_change", "Changes the list of tools.", noArguments,
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			constant(s, "test_added_tool", "Is new.")
			return words("changed"), nil
		})
	fixture(s, "test_trigger_prompt_change", "Changes the list of prompts.", noArguments,
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			prompt(s, "test_added_prompt", nil, func(map[string]string) []sdk.Content { return nil })
			return words("changed"), nil
		})
}

func needsSampling(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	if can := r.ClientCapabilities(); can != nil && can.Sampling != nil { //nolint:staticcheck // as in samples
		return words("the client can sample"), nil
	}
	data, err := json.Marshal(sdk.MissingRequiredClientCapabilityData{
		RequiredCapabilities: &sdk.ClientCapabilities{Sampling: &sdk.SamplingCapabilities{}}, //nolint:staticcheck // likewise
	})
	if err != nil {
		return nil, err
	}
	return nil, &jsonrpc.Error{Code: sdk.CodeMissingRequiredClientCapabilities, Message: "the client cannot sample", Data: data}
}
