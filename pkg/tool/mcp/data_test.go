package mcp_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/tool"
)

func TestResourcesAndPromptsAreTools(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, tool, args string
		content          []string // parts of the result
		media            int
		err              string
	}{
		{"a list of resources", "list_resources", `{}`, []string{`"uri":"test://notes"`, `"uriTemplate":"test://page/{n}"`}, 0, ""},
		{"a resource", "read_resource", `{"uri":"test://notes"}`, []string{"text of test://notes"}, 0, ""},
		{"a resource of a template", "read_resource", `{"uri":"test://page/7"}`, []string{"text of test://page/7"}, 0, ""},
		{"a binary resource", "read_resource", `{"uri":"test://pixel"}`, nil, 1, ""},
		{"a resource that does not exist", "read_resource", `{"uri":"test://nope"}`, nil, 0, "refuses the call"},
		{"a resource without a URI", "read_resource", `{}`, nil, 0, "wrong arguments"},
		{"a list of prompts", "list_prompts", `{}`, []string{`"name":"greet"`, `"required":true`}, 0, ""},
		{"a prompt", "get_prompt", `{"name":"greet","arguments":{"name":"Ann"}}`, []string{"A greeting", "user: Greet Ann"}, 1, ""},
		{"a prompt that does not exist", "get_prompt", `{"name":"nope"}`, nil, 0, "refuses the call"},
	}
	o := serve(t).options()
	o.Resources, o.Prompts = true, true
	r := run(t, o)
	for _, tt := range tests {
		got, err := r.call(t.Context(), tt.tool, tt.args, quiet)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.err)
		}
		for _, part := range tt.content {
			if !strings.Contains(got.Content, part) {
				t.Errorf("%s: got %q, want %q in it", tt.name, got.Content, part)
			}
		}
		if len(got.Media) != tt.media {
			t.Errorf("%s: got %d media, want %d", tt.name, len(got.Media), tt.media)
		}
	}
}

func TestResourcesAndPromptsAreNotOfferedUnlessConfigured(t *testing.T) {
	t.Parallel()
	specs := <-run(t, serve(t).options()).found
	if i := slices.IndexFunc(specs, func(s tool.Spec) bool { return strings.HasSuffix(s.Name, "_resource") }); i >= 0 {
		t.Errorf("got the tool %s", specs[i].Name)
	}
}
