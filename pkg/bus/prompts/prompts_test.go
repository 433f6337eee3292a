package prompts_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/bus/prompts/promptstest"
)

// serve answers prompts to echo until the test ends, on as many connections as there are handlers.
func serve(t *testing.T, handlers ...func(*bus.Prompt)) *promptstest.Client {
	t.Helper()
	server := bustest.NewServer(t)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	for _, handle := range handlers {
		b := server.Connect(t, "test")
		running.Go(func() {
			o := bus.PromptOptions{Agents: map[string]string{"echo": ""}, Owner: "o", Session: "s", MaxPayload: 1 << 10, Heartbeat: time.Second}
			if err := b.ServePrompts(ctx, o, handle); err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
	c := promptstest.Connect(t, server.URL())
	c.Discover("echo", len(handlers))
	return c
}

const subject = "agents.prompt.echo.o.s"

func TestEachPromptIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	echo := func(p *bus.Prompt) {
		if err := p.Send([]byte(`{"type":"response","data":"` + string(p.Data) + p.Header("X") + `"}`)); err != nil {
			t.Error(err)
		}
	}
	c := serve(t, echo, echo)
	for _, text := range []string{"a", "b", "c", "d"} {
		s := c.Prompt(subject, text, "X", "!")
		if got, _ := s.Until("end"); got != text+"!" {
			t.Errorf("got %q, want %q", got, text+"!")
		}
	}
}

func TestAnErrorIsOneLine(t *testing.T) {
	t.Parallel()
	c := serve(t, func(p *bus.Prompt) {
		p.Fail(409, "two\nlines "+strings.Repeat("ä", 200), []byte(`{}`))
		p.End()
		p.End()
		if err := p.Send([]byte("late")); err == nil {
			t.Error("a part was sent after the end")
		}
	})
	s := c.Prompt(subject, "hi")
	failed := s.Next()
	if text := failed.Header.Get("Nats-Service-Error"); failed.String() != "error 409" || !strings.HasPrefix(text, "two lines ") || len(text) > 200 {
		t.Errorf("got %v", failed.Header)
	}
	if end := s.Next(); !end.IsEnd() {
		t.Errorf("got %s, want the end", end)
	}
}

func TestPingNoticesThatAClientHasLeft(t *testing.T) {
	t.Parallel()
	asked, left := make(chan bool), make(chan struct{})
	c := serve(t, func(p *bus.Prompt) {
		asked <- p.Ping(t.Context(), []byte(`{"type":"status","data":"ack"}`))
		<-left
		for p.Ping(t.Context(), []byte("{}")) { // until the server has removed the subscription
			time.Sleep(time.Millisecond)
		}
		asked <- false
	})
	s := c.Prompt(subject, "hi")
	if !<-asked {
		t.Error("a client that listens has left")
	}
	s.Leave()
	close(left)
	<-asked
}

func TestAReplyIsAnInbox(t *testing.T) {
	t.Parallel()
	c := serve(t, func(p *bus.Prompt) {
		reply, err := p.Reply(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		defer reply.Close()
		if err := p.Send([]byte(`{"type":"query","data":{"reply_subject":"` + reply.Subject + `"}}`)); err != nil {
			t.Error(err)
		}
		answer, err := reply.Next(t.Context())
		if err != nil || string(answer) != "yes" {
			t.Errorf("got %q, %v, want yes", answer, err)
		}
	})
	s := c.Prompt(subject, "hi")
	_, query := s.Until("query")
	s.Answer(query, "yes")
	s.Until("end")
}

func TestResponsesGoToInboxesOnly(t *testing.T) {
	t.Parallel()
	c := serve(t, func(p *bus.Prompt) { t.Errorf("got the prompt %q", p.Data) })
	for _, reply := range []string{"agentbus.event.t.r", "$JS.API.STREAM.INFO.X", "agents.prompt.echo.o.s", "_X.a", "_INBOX"} {
		c.Publish(subject, reply, "hi")
	}
	c.Request("agents.status.echo.o.s", "") // answered after the prompts
}
