package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	protocol "github.com/agentbus/agentbus/pkg/acp"
)

// The test binary is also the agent that the tests run: with fakeVariable set it does what its prompt says. Its value lists
// what it can do.
const fakeVariable = "FAKE_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(fakeVariable) == "" {
		os.Exit(m.Run())
	}
	f := &fake{can: os.Getenv(fakeVariable), cancelled: make(chan struct{})}
	f.conn = protocol.NewConn(os.Stdin, os.Stdout, f)
	if err := f.conn.Serve(context.Background()); err != nil {
		os.Exit(1)
	}
}

// fake is an agent whose sessions are files in its folder.
type fake struct {
	can       string
	conn      *protocol.Conn
	session   string
	once      sync.Once
	cancelled chan struct{}
}

func (f *fake) Notification(method string, _ json.RawMessage) {
	if method == protocol.MethodCancel {
		f.once.Do(func() { close(f.cancelled) })
	}
}

func (f *fake) Request(method string, params json.RawMessage) func(context.Context) (any, error) {
	return func(ctx context.Context) (any, error) {
		switch method {
		case protocol.MethodInitialize:
			return f.hello(), nil
		case protocol.MethodAuthenticate:
			leave("auth", string(params))
			return struct{}{}, nil
		case protocol.MethodNew:
			if strings.Contains(f.can, "login") {
				return nil, protocol.Errorf(protocol.CodeAuthRequired, "log in first")
			}
			f.session = fmt.Sprintf("s%d", time.Now().UnixNano())
			leave("session-"+f.session, "")
			return f.opened(f.session), nil
		case protocol.MethodLoad, protocol.MethodResume:
			return f.reopen(method, params)
		case protocol.MethodSetOption:
			leave("option", string(params))
			return struct{}{}, nil
		case protocol.MethodPrompt:
			p, err := protocol.Decode[protocol.PromptRequest](params)
			if err != nil {
				return nil, err
			}
			leave("prompt", string(params))
			return f.answer(ctx, p)
		default:
			return nil, protocol.Errorf(protocol.CodeMethodNotFound, "no method %s", method)
		}
	}
}

func (f *fake) hello() protocol.InitializeResponse {
	h := protocol.InitializeResponse{
		ProtocolVersion: 1, AgentInfo: &protocol.Implementation{Name: "fake", Version: "1"}, AuthMethods: []protocol.AuthMethod{},
	}
	h.AgentCapabilities.LoadSession = strings.Contains(f.can, "load")
	h.AgentCapabilities.PromptCapabilities.Image = strings.Contains(f.can, "image")
	if strings.Contains(f.can, "resume") {
		h.AgentCapabilities.SessionCapabilities.Resume = &protocol.Flag{}
	}
	return h
}

func (f *fake) opened(id string) protocol.SessionResponse {
	r := protocol.SessionResponse{SessionID: id}
	if strings.Contains(f.can, "models") {
		r.ConfigOptions = []protocol.ConfigOption{{
			ID: "model", Name: "Model", Category: "model", Type: "select", CurrentValue: "small",
			Options: []protocol.ConfigValue{{Value: "small", Name: "Small"}, {Value: "large", Name: "Large"}},
		}}
	}
	return r
}

func (f *fake) reopen(method string, params json.RawMessage) (any, error) {
	p, err := protocol.Decode[protocol.SessionRequest](params)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat("session-" + p.SessionID); err != nil {
		return nil, protocol.Errorf(protocol.CodeNotFound, "session %s not found", p.SessionID)
	}
	f.session = p.SessionID
	if method == protocol.MethodLoad {
		f.text(protocol.UpdateUserMessage, "an earlier question")
		f.text(protocol.UpdateAgentMessage, "an earlier answer")
	}
	return f.opened(""), nil
}

func (f *fake) update(u protocol.Update) {
	_ = f.conn.Notify(protocol.MethodUpdate, protocol.UpdateNotification{SessionID: f.session, Update: u}) // the test sees what is missing
}

func (f *fake) text(kind, text string) {
	content, err := json.Marshal(protocol.TextContent(text))
	if err != nil {
		panic(err)
	}
	f.update(protocol.Update{SessionUpdate: kind, ToolCall: protocol.ToolCall{Content: content}})
}

func (f *fake) call(status, rest string) {
	var c protocol.ToolCall
	if rest != "" {
		if err := json.Unmarshal([]byte(rest), &c); err != nil {
			panic(err)
		}
	}
	c.ToolCallID, c.Status = "c1", status
	kind := protocol.UpdateToolProgress
	if status == protocol.ToolPending {
		kind = protocol.UpdateToolCall
	}
	f.update(protocol.Update{SessionUpdate: kind, ToolCall: c})
}

const calculate = `{"title":"Multiply","kind":"execute","rawInput":{"expression":"6*7"}}`

// answer does what the newest line of the prompt says that begins with a verb.
func (f *fake) answer(ctx context.Context, p protocol.PromptRequest) (any, error) {
	verb, rest := "say", "hello"
	for _, c := range p.Prompt {
		for line := range strings.Lines(c.Text) {
			if v, r, found := strings.Cut(strings.TrimSpace(line), ":"); found && !strings.Contains(v, " ") {
				verb, rest = v, strings.TrimSpace(r)
			}
		}
	}
	end := protocol.PromptResponse{StopReason: protocol.StopEndTurn, Usage: &protocol.Usage{InputTokens: 3, OutputTokens: 2}}
	switch verb {
	case "think":
		f.text(protocol.UpdateAgentThought, "hm")
		f.text(protocol.UpdateAgentMessage, rest)
	case "tools":
		f.call(protocol.ToolPending, calculate)
		f.call(protocol.ToolInProgress, "")
		f.call("", `{"content":[{"type":"content","content":{"type":"text","text":"4"}}]}`)
		f.call(protocol.ToolCompleted, `{"content":[{"type":"content","content":{"type":"text","text":"42"}}]}`)
		f.update(protocol.Update{SessionUpdate: protocol.UpdatePlan, Entries: []protocol.PlanEntry{
			{Content: "multiply", Priority: "high", Status: "completed"}, {Content: "say it", Priority: "low", Status: "pending"},
		}})
		f.update(protocol.Update{SessionUpdate: "from_the_future", ToolCall: protocol.ToolCall{Title: "x"}})
		f.text(protocol.UpdateAgentMessage, "it is 42")
	case "permit":
		return f.permit(ctx, rest, end)
	case "files":
		err := f.conn.Call(ctx, protocol.MethodReadFile, map[string]string{"path": "/etc/passwd"}, nil)
		f.text(protocol.UpdateAgentMessage, fmt.Sprint(err))
	case "cost":
		for i := range 100 {
			f.update(protocol.Update{SessionUpdate: protocol.UpdateUsage, Used: 1, Size: 2, Cost: &protocol.Cost{Amount: 0.1 * float64(i+1), Currency: "USD"}})
		}
	case "stop":
		end.StopReason = protocol.StopReason(rest)
	case "fail":
		return nil, protocol.Errorf(protocol.CodeInternal, "%s", rest)
	case "die":
		f.text(protocol.UpdateAgentMessage, "half")
		fmt.Fprintln(os.Stderr, "Error: "+rest)
		os.Exit(3)
	case "endless":
		for {
			f.text(protocol.UpdateAgentMessage, "more ")
			time.Sleep(2 * time.Millisecond)
		}
	case "deaf": // to its input, to session/cancel and to SIGTERM
		signal.Ignore(syscall.SIGTERM)
		f.text(protocol.UpdateAgentMessage, "deaf")
		select {}
	case "silent":
		<-ctx.Done()
	default:
		f.text(protocol.UpdateAgentMessage, rest)
	}
	return end, nil
}

// permit asks for a permission, and says what came of it.
func (f *fake) permit(ctx context.Context, kind string, end protocol.PromptResponse) (any, error) {
	f.call(protocol.ToolPending, `{"title":"Run tests","kind":"`+kind+`","rawInput":{"command":"make test"}}`)
	allow := protocol.AllowOnce
	if strings.Contains(f.can, "always") {
		allow = protocol.AllowAlways
	}
	var response protocol.PermissionResponse
	err := f.conn.Call(ctx, protocol.MethodPermission, protocol.PermissionRequest{
		SessionID: f.session, ToolCall: protocol.ToolCall{ToolCallID: "c1"},
		Options: []protocol.PermissionOption{{OptionID: "a", Name: "Allow", Kind: allow}, {OptionID: "r", Name: "Reject", Kind: protocol.RejectOnce}},
	}, &response)
	switch {
	case err != nil:
		return nil, err
	case response.Outcome.Outcome == protocol.OutcomeCancelled:
		<-f.cancelled
		end.StopReason = protocol.StopCancelled
		return end, nil
	case response.Outcome.OptionID == "a":
		f.call(protocol.ToolCompleted, `{"rawOutput":{"passed":true}}`)
	default:
		f.call(protocol.ToolFailed, `{"content":[{"type":"content","content":{"type":"text","text":"rejected"}}]}`)
	}
	f.text(protocol.UpdateAgentMessage, "chose "+response.Outcome.OptionID)
	return end, nil
}

func leave(name, text string) {
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		panic(err)
	}
}
