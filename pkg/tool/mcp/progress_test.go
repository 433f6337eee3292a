package mcp

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestProgressWithoutACallIsDropped(t *testing.T) {
	t.Parallel()
	var p progress
	var said string
	token, done := p.follow("call_1", &receiver{progress: func(text string) { said += text }})
	for _, foreign := range []any{nil, 7.0, "call_2-1", map[string]any{"a": 1.0}, []any{"x"}} {
		p.notify(&sdk.ProgressNotificationParams{ProgressToken: foreign, Message: "no"}, false)
	}
	p.notify(&sdk.ProgressNotificationParams{ProgressToken: token, Message: "yes"}, false)
	done()
	p.notify(&sdk.ProgressNotificationParams{ProgressToken: token, Message: "too late"}, false)
	if said != "yes\n" {
		t.Errorf("got %q", said)
	}
}
