package command

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/event"
)

func TestChatOneMessage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		message   string
		code      int
		out, side string
	}{
		"the answer alone goes to the output": {
			"/think hm\n/say hello\n/tool calculator {\"expression\":\"6*7\"}\n/say done", 0,
			"hello\ndone\n", "hm\n→ calculator {\"expression\":\"6*7\"}\n← 6*7 = 42\n",
		},
		"a failure has an exit code": {
			"/say so far\n/fail agent_error", exitFailed,
			"so far\n", "error: line 2 of the script asked for this failure (agent_error)\n",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, side := execute(t, test.code, shared().at("chat", "-m", test.message)...)
			if out != test.out || side != test.side {
				t.Errorf("got %q and %q, want %q and %q", out, side, test.out, test.side)
			}
		})
	}
}

func TestInputThatIsOdd(t *testing.T) {
	t.Parallel()
	if out, _ := execute(t, 0, shared().at("chat", "-m", "/say a\xffb")...); out != "a\ufffdb\n" {
		t.Errorf("a message that is not UTF-8: got %q", out)
	}
	c := begin(t, nil, shared().at("chat")...)
	c.types(t, "/say a\xff\xfeb")
	c.out.await(t, "a\ufffdb\n")
	_, _ = io.WriteString(c.in, "/say "+strings.Repeat("a", 2<<20)) // fails where the reader gives up
	if _, side := c.wait(t, exitFailed); !strings.Contains(side, "agentbus: read the input: a line is longer than 1048576 bytes") {
		t.Errorf("a line that is too long: %q", side)
	}
}

func TestChatWithAnUnknownAgentEndsBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	_, side := begin(t, nil, shared().at("chat", "unknown")...).wait(t, exitFailed) // its input stays open
	if want := "agentbus: agent \"unknown\" does not exist; `agentbus agents` lists the agents"; !strings.Contains(side, want) || strings.Contains(side, "talking to") {
		t.Errorf("got %q, want %q alone", side, want)
	}
}

func TestAConversationStaysOnItsThread(t *testing.T) {
	t.Parallel()
	s := shared()
	c := begin(t, nil, s.at("chat")...)
	c.types(t, "/say first answer")
	c.types(t, "")
	c.types(t, "/say second answer")
	c.out.await(t, "second answer\n")
	_ = c.in.Close()
	out, _ := c.wait(t, 0)
	if out != "first answer\nsecond answer\n" {
		t.Errorf("got %q", out)
	}
	list, _ := execute(t, 0, s.at("threads")...)
	thread := regexp.MustCompile(`(thr_\w+)  demo +2  .*/say first answer`).FindStringSubmatch(list)
	if thread == nil {
		t.Fatalf("no thread of two requests in\n%s", list)
	}
	out, side := execute(t, 0, s.at("threads", thread[1])...)
	if out != "first answer\nsecond answer\n" || side != "> /say first answer\n> /say second answer\n" {
		t.Errorf("the thread: %q and %q", out, side)
	}
}

func TestAgentRequestsPermission(t *testing.T) {
	t.Parallel()
	const (
		approve = `/approve echo {"text":"the deed"}` + "\n/say over"
		ask     = "/ask Which colour?\n/say over"
		client  = "/client-tool locate {\"precision\":\"city\"}\n/say over"
	)
	tests := map[string]struct {
		message string
		answers []string
		side    string // one of the lines in addition to the answer
	}{
		"and is allowed":                  {approve, []string{"y"}, "← 8 bytes"},
		"and is denied":                   {approve, []string{"n"}, "← denied: "},
		"and is denied for a reason":      {approve, []string{"too late in the day"}, "← denied: "},
		"and is answered":                 {ask, []string{"blue"}, "Which colour?"},
		"for a tool of the client":        {client, []string{`{"city":"Bern"}`}, "locate"},
		"and gets no JSON at first":       {client, []string{"Bern", `"Bern"`}, "That is not JSON"},
		"for a tool that fails over here": {client, []string{"!no signal"}, "← error: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t, nil, shared().at("chat", "-m", test.message)...)
			for _, answer := range test.answers {
				c.types(t, answer)
			}
			out, side := c.wait(t, 0)
			if out != "over\n" || !strings.Contains(side, test.side) {
				t.Errorf("got %q and %q, want %q among the latter", out, side, test.side)
			}
		})
	}
}

func TestAQuestionCanWait(t *testing.T) {
	t.Parallel()
	s := shared()
	_, side := execute(t, exitFailed, s.at("chat", "-m", "/approve echo {\"text\":\"later\"}\n/say over")...)
	hint := regexp.MustCompile("the agent waits for an answer, and the input has ended; continue with `agentbus chat demo --thread (thr_\\w+)`").FindStringSubmatch(side)
	if hint == nil {
		t.Fatalf("no hint in %q", side)
	}
	c := begin(t, nil, s.at("chat", "--thread", hint[1])...)
	c.types(t, "y")
	c.out.await(t, "over\n")
	_ = c.in.Close()
	if _, side := c.wait(t, 0); !strings.Contains(side, "> /approve") || !strings.Contains(side, "← 5 bytes") {
		t.Errorf("got %q", side)
	}
}

func TestInterruptsStopTheAnswerAndThenTheConversation(t *testing.T) {
	t.Parallel()
	s := shared()
	t.Run("one message", func(t *testing.T) {
		t.Parallel()
		c := begin(t, nil, s.at("chat", "-m", "/say begun\n/sleep 1h")...)
		c.out.await(t, "begun")
		c.interrupts <- os.Interrupt
		if _, side := c.wait(t, exitFailed); !strings.Contains(side, "stopped") {
			t.Errorf("got %q", side)
		}
	})
	t.Run("a conversation continues", func(t *testing.T) {
		t.Parallel()
		c := begin(t, nil, s.at("chat")...)
		c.types(t, "/stream 100000 20")
		c.out.await(t, " ")
		c.interrupts <- os.Interrupt
		c.err.await(t, "stopped")
		c.types(t, "/say still here")
		c.out.await(t, "still here\n")
		c.err.await(t, "stopped\n> \n> ") // the next prompt
		c.interrupts <- os.Interrupt
		c.wait(t, 0)
	})
	t.Run("twice leaves at once", func(t *testing.T) {
		t.Parallel()
		c := begin(t, nil, s.at("chat")...)
		c.types(t, "/sleep 1h")
		c.interrupts <- os.Interrupt
		c.interrupts <- os.Interrupt
		c.wait(t, 0)
	})
}

func TestAThreadThatIsBusy(t *testing.T) {
	t.Parallel()
	s := shared()
	first := begin(t, nil, s.at("chat", "--json", "-m", "/say begun\n/sleep 1h")...)
	first.out.await(t, `"event":"text"`)
	opening, _, _ := strings.Cut(first.out.String(), "\n")
	e, err := event.Decode([]byte(opening))
	if err != nil {
		t.Fatal(err)
	}
	thread := e.Body.(event.Metadata).ThreadID
	_, side := execute(t, exitFailed, s.at("chat", "--thread", thread, "-m", "/say me too")...)
	if !strings.Contains(side, "agentbus abort "+e.RequestID) {
		t.Errorf("no way out in %q", side)
	}
	if out, _ := execute(t, 0, s.at("abort", e.RequestID)...); out != "stopping "+e.RequestID+"\n" {
		t.Errorf("abort: %q", out)
	}
	first.wait(t, exitFailed)
	if _, side := execute(t, exitFailed, s.at("abort", e.RequestID)...); !strings.Contains(side, "request_finished") {
		t.Errorf("a second abort: %q", side)
	}
}

func TestSteerAndFollowUp(t *testing.T) {
	t.Parallel()
	s := shared()
	first := begin(t, nil, s.at("chat", "--json", "-m", "/say begun\n/sleep 2s")...)
	first.out.await(t, `"event":"text"`)
	opening, _, _ := strings.Cut(first.out.String(), "\n")
	e, err := event.Decode([]byte(opening))
	if err != nil {
		t.Fatal(err)
	}
	next, _ := execute(t, 0, s.at("follow-up", e.RequestID, "/say", "and", "then")...)
	if out, _ := execute(t, 0, s.at("steer", e.RequestID, "/say", "steered")...); out != "sent to "+e.RequestID+"\n" {
		t.Errorf("steer: %q", out)
	}
	if out, _ := first.wait(t, 0); !strings.Contains(out, `"text":"steered"`) {
		t.Errorf("the steer was not read: %s", out)
	}
	if out, _ := execute(t, 0, s.at("tail", strings.TrimSpace(next))...); out != "and then\n" {
		t.Errorf("the follow-up: %q", out)
	}
	if _, side := execute(t, exitFailed, s.at("steer", e.RequestID, "late")...); !strings.Contains(side, "request_finished") {
		t.Errorf("a late steer: %q", side)
	}
	if out, _ := execute(t, 0, s.at("--json", "follow-up", e.RequestID, "/say x")...); !strings.Contains(out, `"status":"queued"`) {
		t.Errorf("a follow-up as JSON: %q", out)
	}
}

func TestTail(t *testing.T) {
	t.Parallel()
	s := shared()
	whole, _ := execute(t, 0, s.at("chat", "--json", "-m", "/think hm\n/say hello")...)
	lines := strings.SplitAfter(strings.TrimSuffix(whole, "\n"), "\n")
	opening, err := event.Decode([]byte(strings.TrimSpace(lines[0])))
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := execute(t, 0, s.at("--json", "tail", opening.RequestID)...); again != whole {
		t.Errorf("got\n%s\nwant\n%s", again, whole)
	}
	rest, _ := execute(t, 0, s.at("--json", "tail", opening.RequestID, "--after", string(opening.ID))...)
	if rest != strings.Join(lines[1:], "")+"\n" {
		t.Errorf("after the first event: got\n%s\nwant\n%s", rest, strings.Join(lines[1:], ""))
	}
	out, side := execute(t, 0, s.at("tail", opening.RequestID, "--include=input")...)
	if out != "hello\n" || side != "> /think hm\n/say hello\nhm\n" {
		t.Errorf("got %q and %q", out, side)
	}
	if _, side := execute(t, exitFailed, s.at("tail", "req_nobody")...); !strings.Contains(side, "request_not_found") {
		t.Errorf("an unknown request: %q", side)
	}
}
