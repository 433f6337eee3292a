package mcp

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agentbus/agentbus/pkg/tool/internal/eventline"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// progress forwards the server's progress notifications to the running calls. Its zero value is ready for use.
type progress struct {
	count atomic.Uint64
	calls sync.Map // token → sink
}

// sink receives what a server reports of a call while it runs. Its methods never block.
type sink interface {
	say(line string)
	emit(text []byte) // an event, as JSON
}

// follow names a call for the server, until done.
func (p *progress) follow(callID string, to sink) (token string, done func()) {
	token = callID + "-" + strconv.FormatUint(p.count.Add(1), 36)
	p.calls.Store(token, to)
	return token, func() { p.calls.Delete(token) }
}

// call returns the running call that a notification names; nil = it has ended.
func (p *progress) call(token any) sink {
	name, ok := token.(string) // of a server that keeps to the protocol; a map's key must not be what anybody sends
	if !ok {
		return nil
	}
	to, _ := p.calls.Load(name)
	running, _ := to.(sink)
	return running
}

// notify forwards a notification as a line. events is set if events were taken from notifications by an [eventTap].
func (p *progress) notify(n *sdk.ProgressNotificationParams, events bool) {
	to := p.call(n.ProgressToken)
	if to == nil {
		return
	}
	line := n.Message
	if _, emits := n.Meta[EventKey]; events && (emits && line == "" || strings.HasPrefix(line, eventline.Prefix)) {
		return
	}
	if line == "" && n.Total > 0 {
		line = fmt.Sprintf("%g of %g", n.Progress, n.Total)
	}
	if line == "" {
		line = fmt.Sprintf("%g", n.Progress)
	}
	to.say(line + "\n")
}
