package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/media"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func offered(names ...string) []*sdk.Tool {
	tools := make([]*sdk.Tool, len(names))
	for i, name := range names {
		tools[i] = &sdk.Tool{Name: name}
	}
	return tools
}

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	tests := []struct {
		name    string
		offered []string
		want    []string
	}{
		{"a good name stays", []string{"get_issue"}, []string{"s__get_issue"}},
		{"what a name may not have is replaced", []string{"repo.get/issue"}, []string{"s__repo_get_issue"}},
		{"a good name wins over one that was changed", []string{"a.b", "a_b"}, []string{"s__a_b", "s__a_b_2e7336"}},
		{"two that were changed both get an ending", []string{"a.b", "a/b"}, []string{"s__a_b_2e7336", "s__a_b_c14cdd"}},
		{"a long name is cut", []string{long}, []string{"s__" + long[:54] + "_c71bd1"}},
		{"of two tools of one name there is the first", []string{"a", "a"}, []string{"s__a"}},
		{"letters of other scripts are replaced", []string{"ä"}, []string{"s___"}},
	}
	for _, tt := range tests {
		if got := slices.Sorted(maps.Keys(named("s", offered(tt.offered...)))); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// FuzzNames holds that every tool of a name of its own has a valid name of its own here, whatever the order.
func FuzzNames(f *testing.F) {
	f.Add("a.b", "a_b", "a/b")
	f.Add(strings.Repeat("y", 80), strings.Repeat("y", 81), "")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		names := named("source", offered(a, b, c))
		back := named("source", offered(c, b, a))
		for name, it := range names {
			if !id.Valid(name) {
				t.Errorf("%q becomes %q, which is not a name", it.Name, name)
			}
			if other, ok := back[name]; !ok || other.Name != it.Name {
				t.Errorf("%q has another name in another order", it.Name)
			}
		}
		if len(names) != len(back) {
			t.Errorf("%d names, and %d in another order", len(names), len(back))
		}
	})
}

// FuzzResult holds that whatever a server answers becomes a result or a fault, and that no media is kept that may not be.
func FuzzResult(f *testing.F) {
	f.Add(`{"content":[{"type":"text","text":"x"}],"isError":true}`)
	f.Add(`{"content":[{"type":"image","mimeType":"image/png","data":"AAE="},{"type":"resource","resource":{"uri":"a/../b","blob":"AA=="}}]}`)
	f.Add(`{"content":[{"type":"resource_link","uri":"x","name":"y"}],"structuredContent":[1]}`)
	f.Fuzz(func(t *testing.T, answer string) {
		var r sdk.CallToolResult
		if json.Unmarshal([]byte(answer), &r) != nil {
			return
		}
		result, err := read(&r)
		if err != nil && apierr.CodeOf(err) != apierr.ToolError {
			t.Errorf("got %v", err)
		}
		for _, part := range result.Media {
			if _, err := media.Check("media", part); err != nil {
				t.Errorf("kept %+v: %v", part, err)
			}
		}
	})
}
