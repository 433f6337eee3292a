package agentserver_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// A stream continues after the last event that was received.
func TestAStreamResumes(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.say("/stream 20 100\n/say done")
	var before []remoteagent.Event
	for e, err := range s.Stream(t.Context(), task.TaskID, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if before = append(before, e); len(before) == 5 {
			break
		}
	}
	after := s.follow(task.TaskID, 5)
	all := s.follow(task.TaskID, 0)
	if len(before)+len(after) != len(all) || after[0].ID != 6 {
		t.Errorf("got %d events, then %d from %d on, of %d", len(before), len(after), after[0].ID, len(all))
	}
}

// A connection that is cut costs no event.
func TestACutStreamIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	s.HTTP = &http.Client{Transport: &flaky{}}
	s.Attempts = 100
	task := s.say("/stream 200 400")
	events := s.follow(task.TaskID, 0)
	for i, e := range events {
		if e.ID != uint64(i)+1 {
			t.Fatalf("event %d has the id %d", i, e.ID)
		}
	}
	if got := len(find[remoteagent.TextDelta](events)); got != 200 {
		t.Errorf("got %d deltas, want 200", got)
	}
}

// flaky cuts every stream after a few thousand bytes.
type flaky struct{}

func (*flaky) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	response, err := http.DefaultTransport.RoundTrip(r.WithContext(ctx))
	if err != nil || !strings.HasSuffix(r.URL.Path, "/stream") {
		context.AfterFunc(r.Context(), cancel)
		return response, err
	}
	response.Body = &cut{ReadCloser: response.Body, left: 6000, cancel: cancel}
	return response, nil
}

type cut struct {
	io.ReadCloser
	left   int
	cancel func()
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left <= 0 {
		c.cancel()
		return 0, context.Canceled
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func (c *cut) Close() error {
	c.cancel()
	return c.ReadCloser.Close()
}

func TestAFinishedTaskSendsItsResultAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	tests := []struct{ name, script, last string }{
		{"a result", "/say a b c", "event: result\n"},
		{"an error", "/say a b c\n/fail agent_error", "event: error\n"},
	}
	for _, test := range tests {
		task := s.finish(s.say(test.script).TaskID)
		status, body, header := s.raw("GET", "/tasks/"+task.TaskID+"/stream", "", nil)
		if status != http.StatusOK || strings.Count(body, "event: ") != 1 || !strings.Contains(body, test.last) ||
			header.Get("Content-Type") != "text/event-stream" || header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("%s: got %d %q %v", test.name, status, body, header)
		}
		s.until("the place is free", func() bool { info, err := s.Info(t.Context()); return err == nil && info.CurrentTask == nil })
	}
}

func TestLastEventID(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.finish(s.say("/say a b c").TaskID)
	tests := []struct {
		name, id string
		status   int
		events   int
	}{
		{"0 asks for all", "0", http.StatusOK, 6},
		{"a number asks for what is behind it", "4", http.StatusOK, 2},
		{"the newest has nothing behind it, and never will", "6", http.StatusNoContent, 0},
		{"one that never was is refused", "7", http.StatusBadRequest, 0},
		{"a word is refused", "NaN", http.StatusBadRequest, 0},
		{"a negative number is refused", "-1", http.StatusBadRequest, 0},
		{"a number without end is refused", "99999999999999999999", http.StatusBadRequest, 0},
	}
	for _, test := range tests {
		status, body, _ := s.raw("GET", "/tasks/"+task.TaskID+"/stream", "", http.Header{"Last-Event-Id": {test.id}})
		if status != test.status || strings.Count(body, "event: ") != test.events {
			t.Errorf("%s: got %d with %d events: %s", test.name, status, strings.Count(body, "event: "), body)
		}
	}
}

func TestALeavingReaderLeavesTheTaskRunning(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.say("/stream 30 100\n/say done")
	s.await(task.TaskID, "text_delta")
	if got := s.status(task.TaskID); got.Status != remoteagent.Running {
		t.Fatalf("got %+v", got)
	}
	if done := s.finish(task.TaskID); done.Status != remoteagent.Completed {
		t.Errorf("got %+v", done)
	}
}

func TestReadersOfOneTaskSeeTheSame(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.say("/stream 2000 4000")
	logs := make(chan int, 8)
	for range cap(logs) {
		go func() {
			n := 0
			for _, err := range s.Stream(t.Context(), task.TaskID, 0) {
				if err != nil {
					n = -1
					break
				}
				n++
			}
			logs <- n
		}()
	}
	for range cap(logs) {
		if n := <-logs; n != 2003 {
			t.Errorf("a reader got %d events, want 2003", n)
		}
	}
}

func TestAStopCutsStreamsWithoutAnEnd(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.say("/say hi\n/sleep 1h")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/tasks/"+task.TaskID+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() && lines.Text() != "event: text_delta" {
		continue
	}
	s.stop()
	for lines.Scan() {
		if lines.Text() == "event: result" {
			t.Error("the stream has a result, and the task had none yet")
		}
	}
	if lines.Err() == nil {
		t.Error("the stream ended as if it were whole")
	}
}
