package acp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/acp"
)

// peer answers requests by name, and notes notifications.
type peer struct {
	conn      *acp.Conn
	withdrawn chan struct{}

	mu    sync.Mutex
	notes []string
}

func (p *peer) Request(method string, params json.RawMessage) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		switch method {
		case "echo":
			return params, nil
		case "wait":
			<-ctx.Done()
			if p.withdrawn != nil {
				close(p.withdrawn)
			}
			return nil, acp.Errorf(acp.CodeCancelled, "withdrawn")
		case "burst": // notifications, and then the response
			for i := range 100 {
				if err := p.conn.Notify("note", i); err != nil {
					return nil, err
				}
			}
			return "sent", nil
		default:
			return nil, errors.New("unknown")
		}
	}
}

func (p *peer) Notification(_ string, params json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, string(params))
}

func (p *peer) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.notes)
}

// connect returns two peers that are connected until the test ends.
func connect(t *testing.T) (a, b *peer) {
	t.Helper()
	a, b = &peer{}, &peer{}
	toB, fromA := io.Pipe()
	toA, fromB := io.Pipe()
	a.conn, b.conn = acp.NewConn(toA, fromA, a), acp.NewConn(toB, fromB, b)
	var serving sync.WaitGroup
	for _, p := range []*peer{a, b} {
		serving.Go(func() {
			if err := p.conn.Serve(t.Context()); err != nil && t.Context().Err() == nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
	t.Cleanup(func() {
		_, _, _, _ = fromA.Close(), fromB.Close(), toA.Close(), toB.Close()
		serving.Wait()
	})
	return a, b
}

func TestResponsesFollowTheNotificationsBeforeThem(t *testing.T) {
	t.Parallel()
	a, _ := connect(t)
	for range 20 {
		before := len(a.seen())
		var said string
		if err := a.conn.Call(t.Context(), "burst", nil, &said); err != nil || said != "sent" {
			t.Fatalf("got %q, %v", said, err)
		}
		if got := a.seen()[before:]; len(got) != 100 || got[0] != "0" || got[99] != "99" {
			t.Fatalf("got notifications %v at the response, want 0 to 99", got)
		}
	}
}

func TestCallsInBothDirections(t *testing.T) {
	t.Parallel()
	a, b := connect(t)
	var calls sync.WaitGroup
	for i := range 50 {
		calls.Go(func() {
			for _, p := range []*peer{a, b} {
				var got int
				if err := p.conn.Call(t.Context(), "echo", i, &got); err != nil || got != i {
					t.Errorf("got %d, %v, want %d", got, err, i)
				}
			}
		})
	}
	calls.Wait()
}

func TestAnErrorOfThePeerHasItsCode(t *testing.T) {
	t.Parallel()
	a, _ := connect(t)
	err := a.conn.Call(t.Context(), "no such method", nil, nil)
	if e, ok := errors.AsType[*acp.Error](err); !ok || e.Code != acp.CodeInternal || e.Message != "unknown" {
		t.Errorf("got %v, want the error of the peer with code %d", err, acp.CodeInternal)
	}
}

func TestACallThatIsCancelledIsWithdrawn(t *testing.T) {
	t.Parallel()
	a, b := connect(t)
	b.withdrawn = make(chan struct{})
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if err := a.conn.Call(ctx, "wait", nil, nil); !errors.Is(err, stop) {
		t.Errorf("got %v, want %v", err, stop)
	}
	select {
	case <-b.withdrawn:
	case <-time.After(10 * time.Second):
		t.Error("the peer still works on the request")
	}
}

// serve passes lines to a connection and returns what it writes.
func serve(t *testing.T, in string) string {
	t.Helper()
	p, out := &peer{}, &strings.Builder{}
	p.conn = acp.NewConn(strings.NewReader(in), out, p)
	if err := p.conn.Serve(t.Context()); err != nil {
		t.Errorf("serve: %v", err)
	}
	return out.String()
}

func TestMessagesThatAreNotValid(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"no JSON", `{"jsonrpc"`, `"code":-32700`},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"echo"}]`, `"code":-32600`},
		{"neither method nor id", `{"jsonrpc":"2.0"}`, `"code":-32600`},
		{"a response to no call", `{"jsonrpc":"2.0","id":9,"result":1}`, ``},
		{"an empty line", "", ``},
		{"an id that is a text", `{"jsonrpc":"2.0","id":"x","method":"echo","params":{"a":1}}`, `{"jsonrpc":"2.0","id":"x","result":{"a":1}}`},
		{"invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":\"\xff\"}", `"id":1,"result"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := serve(t, tt.in+"\n"); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRequestsOfAPeerAreBounded(t *testing.T) {
	t.Parallel()
	in, toConn := io.Pipe()
	fromConn, out := io.Pipe()
	p := &peer{}
	p.conn = acp.NewConn(in, out, p)
	served := make(chan error, 1)
	go func() { served <- p.conn.Serve(t.Context()) }()
	go func() {
		for i := range 65 {
			_, _ = fmt.Fprintf(toConn, `{"jsonrpc":"2.0","id":%d,"method":"wait"}`+"\n", i)
		}
	}()
	line, err := bufio.NewReader(fromConn).ReadString('\n')
	if err != nil || !strings.Contains(line, `"id":64`) || !strings.Contains(line, "-32600") {
		t.Errorf("got %q, %v, want a refusal of the 65th request", line, err)
	}
	_, _ = toConn.Close(), fromConn.Close()
	if err := <-served; err != nil {
		t.Errorf("serve: %v", err)
	}
}

func FuzzServe(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1}}`)
	f.Add(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`)
	f.Add(`{"id":null,"error":{"code":1,"message":"x"}}`)
	f.Fuzz(func(t *testing.T, in string) {
		for line := range strings.Lines(serve(t, strings.ReplaceAll(in, `"wait"`, `"echo"`))) {
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil || m["jsonrpc"] != "2.0" {
				t.Errorf("wrote %q: %v", line, err)
			}
		}
	})
}
