package hub_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// Tasks that were given by any way are listed, in pages.
func TestTasksOfAnAgentAreListed(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	for i := range 5 {
		h.assign(fmt.Sprintf("work %d", i+1))
	}
	m.end("task_2", remoteagent.Completed, "built")
	eventually(t, func() error {
		got, err := h.door.GetResult(t.Context(), ref("task_2"))
		if err == nil && got.CompletedAt.IsZero() {
			err = fmt.Errorf("got %+v, want that it has ended", got)
		}
		return err
	})
	list := func(query string) (page hubapi.TaskList, status int, text string) {
		status, text = h.ask(http.MethodGet, "/api/agents/vm-1/tasks"+query, "", nil, &page)
		return page, status, text
	}
	names := func(page hubapi.TaskList) (all string) {
		for _, task := range page.Tasks {
			all += task.TaskID + " "
		}
		return strings.TrimSpace(all)
	}
	seen, query := map[string]bool{}, "?limit=2"
	for pages := 1; ; pages++ {
		page, status, text := list(query)
		if status != http.StatusOK || len(page.Tasks) > 2 || pages > 3 {
			t.Fatalf("page %d: got %d %s", pages, status, text)
		}
		for _, task := range page.Tasks {
			if seen[task.TaskID] {
				t.Errorf("%s is listed twice", task.TaskID)
			}
			seen[task.TaskID] = true
		}
		if page.Next == "" {
			break
		}
		query = "?limit=2&before=" + page.Next
	}
	if len(seen) != 5 {
		t.Errorf("got the tasks %v, want 5", seen)
	}
	if page, _, text := list("?status=completed"); names(page) != "task_2" || page.Tasks[0].Result != "built" {
		t.Errorf("got %s, want the completed task", text)
	}
	for query, want := range map[string]int{"?limit=0": 400, "?limit=201": 400, "?before=a%20b": 400, "?status=lost": 200} {
		if _, status, text := list(query); status != want {
			t.Errorf("%s: got %d %s, want %d", query, status, text, want)
		}
	}
	if status, text := h.ask(http.MethodGet, "/api/agents/vm-2/tasks", "", nil, nil); status != http.StatusNotFound {
		t.Errorf("an unknown agent: got %d %s, want 404", status, text)
	}
}

// open opens a stream, and returns its answer.
func (h house) stream(taskID, lastEventID string) *http.Response {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+"/api/agents/vm-1/tasks/"+taskID+"/stream", http.NoBody)
	if err != nil {
		h.t.Fatal(err)
	}
	if lastEventID != "" {
		r.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// numbers reads the ids of events until there are n, or the stream ends.
func numbers(lines *bufio.Scanner, n int) string {
	var all []string
	for len(all) < n && lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			all = append(all, id)
		}
	}
	return strings.Join(all, " ")
}

// The stream of a task is that of its agent, and resumes by Last-Event-ID.
func TestTheStreamOfATaskIsRelayed(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	task := h.assign("build")
	m.say(task.TaskID, remoteagent.Progress{}, remoteagent.TextDelta{Text: "I look."})
	running := h.stream(task.TaskID, "")
	if kind := running.Header.Get("Content-Type"); running.StatusCode != http.StatusOK || kind != "text/event-stream" {
		t.Fatalf("got %s %s", running.Status, kind)
	}
	lines := bufio.NewScanner(running.Body)
	if got := numbers(lines, 2); got != "1 2" {
		t.Errorf("got the events %s, want 1 2", got)
	}
	m.say(task.TaskID, remoteagent.TextDelta{Text: " Done."})
	m.end(task.TaskID, remoteagent.Completed, "Done.")
	if got := numbers(lines, 9); got != "3 4" || lines.Err() != nil {
		t.Errorf("got the events %s and %v, want 3 4 and the end", got, lines.Err())
	}
	for lastEventID, want := range map[string]string{"": "4", "0": "1 2 3 4", "2": "3 4"} {
		if got := numbers(bufio.NewScanner(h.stream(task.TaskID, lastEventID).Body), 9); got != want {
			t.Errorf("after %q: got the events %s, want %s", lastEventID, got, want)
		}
	}
	for _, tt := range []struct {
		name, taskID, lastEventID string
		want                      int
	}{
		{"an unknown task", "task_9", "", http.StatusNotFound},
		{"an event that is not a number", task.TaskID, "abc", http.StatusBadRequest},
	} {
		if got := h.stream(tt.taskID, tt.lastEventID); got.StatusCode != tt.want {
			t.Errorf("%s: got %s, want %d", tt.name, got.Status, tt.want)
		}
	}
	m.set(func() { m.ill = true })
	if got := h.stream(task.TaskID, ""); got.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("an agent that does not answer: got %s, want 503", got.Status)
	}
}

// A stream that is cut before the last event does not end cleanly, so that its client reconnects.
func TestACutStreamOfATaskDoesNotEndCleanly(t *testing.T) {
	t.Parallel()
	h, m := memory(t), newMachine(t)
	h.register(m)
	task := h.assign("build")
	m.say(task.TaskID, remoteagent.Progress{})
	lines := bufio.NewScanner(h.stream(task.TaskID, "").Body)
	if got := numbers(lines, 1); got != "1" {
		t.Fatalf("got the events %s, want 1", got)
	}
	h.drain()
	if got := numbers(lines, 1); got != "" || lines.Err() == nil {
		t.Errorf("got the events %q and a clean end, want an error", got)
	}
}
