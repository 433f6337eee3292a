package mcp

import (
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/hubapi"
	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A call without a caller is refused, and never taken for one of a hub without authentication.
func TestCallWithoutOwnerIsRefused(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string]*sdk.RequestExtra{
		"nothing is known of the request":  nil,
		"no key was checked":               {},
		"the key does not say whose it is": {TokenInfo: &sdkauth.TokenInfo{UserID: "acme/ada"}},
	} {
		r := &sdk.CallToolRequest{Params: &sdk.CallToolParamsRaw{}, Extra: extra}
		for _, spec := range hubapi.Specs() {
			got, err := call(hubapi.NewToolbox(nil), spec, false)(t.Context(), r)
			if err != nil || !got.IsError || !strings.Contains(got.Content[0].(*sdk.TextContent).Text, "API key") {
				t.Errorf("%s: %s gave %+v, %v", name, spec.Name, got, err)
			}
		}
	}
}
