package mcp

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// progress forwards the server's progress notifications to the running calls. Its zero value is ready for use.
type progress struct {
	count atomic.Uint64
	calls sync.Map // token → func(string)
}

// follow names a call for the server, until done.
func (p *progress) follow(callID string, say func(string)) (token string, done func()) {
	token = callID + "-" + strconv.FormatUint(p.count.Add(1), 36)
	p.calls.Store(token, say)
	return token, func() { p.calls.Delete(token) }
}

// notify forwards a notification as a line.
func (p *progress) notify(n *sdk.ProgressNotificationParams) {
	token, ok := n.ProgressToken.(string) // of a server that keeps to the protocol; a map's key must not be what anybody sends
	if !ok {
		return
	}
	say, ok := p.calls.Load(token)
	if !ok {
		return // the call has ended
	}
	line := n.Message
	if line == "" && n.Total > 0 {
		line = fmt.Sprintf("%g of %g", n.Progress, n.Total)
	}
	if line == "" {
		line = fmt.Sprintf("%g", n.Progress)
	}
	if say, ok := say.(func(string)); ok {
		say(line + "\n")
	}
}
