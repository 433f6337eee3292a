package agentserver_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	agentserver "github.com/agentbus/agentbus/services/agent-server"
)

// The key is checked before anything else.
func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	tests := []struct {
		name, header string
		status       int
	}{
		{"no key", "", http.StatusUnauthorized},
		{"no scheme", key, http.StatusUnauthorized},
		{"another scheme", "Basic " + key, http.StatusUnauthorized},
		{"an empty key", "Bearer ", http.StatusUnauthorized},
		{"another key", "Bearer 0123456789abcdef-nope", http.StatusForbidden},
		{"the beginning of the key", "Bearer " + key[:10], http.StatusForbidden},
		{"more than the key", "Bearer " + key + "x", http.StatusForbidden},
		{"the key", "Bearer " + key, http.StatusOK},
		{"the scheme in lower case", "bearer " + key, http.StatusOK},
	}
	for _, test := range tests {
		for _, path := range []string{"/tasks", "/agent/info", "/agent/health"} {
			header := http.Header{"Authorization": {test.header}}
			if status, body, _ := s.raw("GET", path, "", header); status != test.status || strings.Contains(body, key) {
				t.Errorf("%s: GET %s gives %d %s, want %d", test.name, path, status, body, test.status)
			}
		}
	}
	t.Run("in one header", func(t *testing.T) {
		for _, headers := range [][]string{{"Bearer " + key, "Bearer " + key}, {"Bearer " + key, "Basic x"}, {"", "Bearer " + key}} {
			if status, _, _ := s.raw("GET", "/tasks", "", http.Header{"Authorization": headers}); status != http.StatusUnauthorized {
				t.Errorf("%q: got %d, want %d", headers, status, http.StatusUnauthorized)
			}
		}
	})
	t.Run("before the body is read", func(t *testing.T) {
		body := strings.Repeat("x", 8<<20)
		status, _, _ := s.raw("POST", "/tasks", body[:1<<20], http.Header{"Authorization": {"Bearer wrong-wrong-wrong"}})
		if status != http.StatusForbidden {
			t.Errorf("got %d", status)
		}
	})
	t.Run("on paths that are not there", func(t *testing.T) {
		if status, _, _ := s.raw("GET", "/nope", "", http.Header{"Authorization": {""}}); status != http.StatusUnauthorized {
			t.Errorf("got %d", status)
		}
		if status, _, _ := s.raw("GET", "/nope", "", nil); status != http.StatusNotFound {
			t.Errorf("got %d", status)
		}
	})
}

func TestKeysRotateWithAnOverlap(t *testing.T) {
	t.Parallel()
	const second = "a-second-key-of-the-agent"
	dir := t.TempDir()
	s := open(t, setup{env: envAt(dir)})
	with := func(s *server, key string) error {
		_, err := remoteagent.NewClient(s.url, key).Health(t.Context())
		return err
	}
	rotated, err := s.Rotate(t.Context(), remoteagent.Rotation{Key: second, OverlapSeconds: 1})
	if err != nil || time.Until(rotated.OldKeysValidUntil) > time.Second {
		t.Fatalf("got %+v, %v", rotated, err)
	}
	if err := with(s, second); err != nil {
		t.Errorf("the new key: %v", err)
	}
	s.until("the old key is refused", func() bool { return refusal(with(s, key)).HTTP == http.StatusForbidden })
	if time.Now().Before(rotated.OldKeysValidUntil) {
		t.Error("the old key was refused before the overlap was over")
	}
	s.stop()
	again := open(t, setup{env: envAt(dir), change: func(s *agentserver.Settings) { s.Keys = append(s.Keys, "a-third-key-of-the-agent") }})
	for key, good := range map[string]bool{key: false, second: true, "a-third-key-of-the-agent": true} {
		if err := with(again, key); (err == nil) != good {
			t.Errorf("after a restart, key %s: got %v, want it good: %v", key, err, good)
		}
	}
	bad := remoteagent.NewClient(again.url, second)
	for name, r := range map[string]remoteagent.Rotation{
		"too short":           {Key: "short"},
		"with a comma":        {Key: "0123456789,abcdef-0123"},
		"a negative overlap":  {Key: "0123456789abcdef-0123", OverlapSeconds: -1},
		"an overlap for ever": {Key: "0123456789abcdef-0123", OverlapSeconds: 1 << 40},
	} {
		if _, err := bad.Rotate(t.Context(), r); refusal(err).HTTP != http.StatusBadRequest {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAStreamEndsWhenItsKeyIsRotatedOut(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.say("/sleep 10m")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/tasks/"+task.TaskID+"/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := s.Rotate(t.Context(), remoteagent.Rotation{Key: "a-second-key-of-the-agent", OverlapSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || ctx.Err() != nil {
		t.Errorf("got %v, want that the stream is cut", err)
	}
}

// No request is refused during a rotation.
func TestKeysRotateUnderLoad(t *testing.T) {
	t.Parallel()
	s := open(t, setup{config: config.Config{AgentServer: config.AgentServer{
		RateLimit: config.Rate{Requests: 1_000_000, Per: config.Duration(time.Second)},
	}}})
	var mu sync.RWMutex
	current := key
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.RLock()
				client := remoteagent.NewClient(s.url, current)
				mu.RUnlock()
				if _, err := client.List(t.Context(), remoteagent.Query{}); err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
			}
		})
	}
	for i := range 10 {
		next := "key-number-of-the-agent-" + strconv.Itoa(i)
		if _, err := remoteagent.NewClient(s.url, current).Rotate(t.Context(), remoteagent.Rotation{Key: next, OverlapSeconds: 60}); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		current = next
		mu.Unlock()
	}
	close(stop)
	callers.Wait()
}

func TestRequestsAreLimited(t *testing.T) {
	t.Parallel()
	s := open(t, setup{config: config.Config{AgentServer: config.AgentServer{
		RateLimit: config.Rate{Requests: 1, Per: config.Duration(time.Hour), Burst: 20},
	}}})
	for range 30 {
		_, err := s.Health(t.Context())
		if r := refusal(err); r.HTTP == http.StatusTooManyRequests {
			if !r.Retryable || r.RetryAfter == 0 {
				t.Errorf("got %+v", r)
			}
			return
		}
	}
	t.Error("30 requests were answered, where 20 may be")
}

func TestGuessesAreLimited(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	for range 100 {
		if status, _, _ := s.raw("GET", "/agent/info", "", http.Header{"Authorization": {"Bearer a-guess-of-a-client"}}); status == http.StatusTooManyRequests {
			if _, err := s.Info(t.Context()); err != nil {
				t.Errorf("a client with the key is refused like the one that guesses: %v", err)
			}
			return
		}
	}
	t.Error("100 guesses were answered")
}

func TestBadTasksAreRefused(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	asJSON := http.Header{"Content-Type": {"application/json"}}
	tests := []struct {
		name, body string
		header     http.Header
		status     int
		says       string
	}{
		{"no JSON", "hello", asJSON, 400, "JSON"},
		{"nothing", "", asJSON, 400, "JSON"},
		{"an array", "[]", asJSON, 400, "JSON"},
		{"no prompt", "{}", asJSON, 400, "prompt is missing"},
		{"a prompt that is a number", `{"prompt":1}`, asJSON, 400, "/prompt"},
		{"a name twice", `{"prompt":"a","prompt":"b"}`, asJSON, 400, "twice"},
		{"another mode", `{"prompt":"a","permissionMode":"yolo"}`, asJSON, 400, "permissionMode"},
		{"turns below zero", `{"prompt":"a","maxTurns":-1}`, asJSON, 400, "maxTurns"},
		{"half a turn", `{"prompt":"a","maxTurns":0.5}`, asJSON, 400, "maxTurns"},
		{"a budget below zero", `{"prompt":"a","maxBudgetUsd":-1}`, asJSON, 400, "maxBudgetUsd"},
		{"a session that cannot be", `{"prompt":"a","sessionId":"../x"}`, asJSON, 404, "sessionId"},
		{"too much", `{"prompt":"` + strings.Repeat("a", 2<<20) + `"}`, asJSON, 413, "larger"},
		{"a form", "prompt=a", http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, 415, "application/json"},
		{"a key without end", `{"prompt":"a"}`, http.Header{"Idempotency-Key": {strings.Repeat("k", 300)}}, 400, "Idempotency-Key"},
	}
	for _, test := range tests {
		status, body, _ := s.raw("POST", "/tasks", test.body, test.header)
		if status != test.status || !strings.Contains(body, test.says) || !strings.Contains(body, `"code":`) {
			t.Errorf("%s: got %d %s, want %d with %q", test.name, status, body, test.status, test.says)
		}
	}
	if tasks, err := s.List(t.Context(), remoteagent.Query{}); err != nil || len(tasks) != 0 {
		t.Errorf("got %v, %v", tasks, err)
	}
	for _, id := range []string{"nope", "..", "a%2Fb", "task_" + strings.Repeat("x", 100), "%00"} {
		if status, body, _ := s.raw("GET", "/tasks/"+id, "", nil); status != http.StatusNotFound && status != http.StatusMovedPermanently {
			t.Errorf("GET /tasks/%s gives %d %s", id, status, body)
		}
	}
}

func TestAgentDescribesItself(t *testing.T) {
	t.Parallel()
	s := open(t, setup{config: config.Config{AgentServer: config.AgentServer{Capabilities: []string{"code", "test"}}}})
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.AgentID != "home-pc-01" || info.Name != "Home PC" || len(info.Capabilities) != 2 || info.Status != remoteagent.Idle ||
		info.CurrentTask != nil || info.Machine.Hostname == "" || info.Machine.OS == "" || info.Machine.CPUs == 0 ||
		info.Machine.MemoryGB <= 0 || info.SDK.Version == "" || info.RegisteredAt.IsZero() {
		t.Errorf("got %+v", info)
	}
	health, err := s.Health(t.Context())
	if err != nil || !health.Healthy || !health.APIKeyValid || health.DiskFreeGB <= 0 {
		t.Errorf("got %+v, %v", health, err)
	}
	if _, body, _ := s.raw("GET", "/agent/info", "", nil); !strings.Contains(body, `"currentTask":null`) {
		t.Errorf("got %s", body)
	}
}

// What needs an approval is denied, unless the task's permission mode gives it.
func TestPermissionModes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		task    remoteagent.Assignment
		success bool
		result  string
	}{
		{"by default no user can approve", remoteagent.Assignment{Prompt: "/tool guarded {}\n/say on"}, false, "on"},
		{"edits are not everything", remoteagent.Assignment{Prompt: "/tool guarded {}\n/say on", PermissionMode: remoteagent.PermitEdits}, false, "on"},
		{"all is permitted", remoteagent.Assignment{Prompt: "/tool guarded {}\n/say on", PermissionMode: remoteagent.PermitAll}, true, "on"},
		{"an edit needs leave", remoteagent.Assignment{Prompt: "/tool write_file {\"path\":\"x\",\"content\":\"y\"}"}, false, ""},
		{"an edit has leave", remoteagent.Assignment{Prompt: "/tool write_file {\"path\":\"x\",\"content\":\"y\"}", PermissionMode: remoteagent.PermitEdits}, true, ""},
		{"no user answers questions", remoteagent.Assignment{Prompt: "/ask Which?\n/say on"}, false, "on"},
		{"there is no client", remoteagent.Assignment{Prompt: "/client-tool pick {}\n/say on"}, false, "on"},
		{"a tool that is not allowed is not there", remoteagent.Assignment{Prompt: "/tool echo {\"text\":\"a\"}\n/say on", AllowedTools: []string{"clock"}}, false, "on"},
		{"a tool that is allowed is", remoteagent.Assignment{Prompt: "/tool clock {}\n/say on", AllowedTools: []string{"clock"}}, true, "on"},
		{"tools are known by the names of Claude Code",
			remoteagent.Assignment{Prompt: "/tool list_files {}\n/say on", AllowedTools: []string{"Glob"}}, true, "on"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, setup{})
			task := s.create(test.task)
			events := s.follow(task.TaskID, 0)
			if ends := find[remoteagent.ToolEnd](events); len(ends) != 1 || ends[0].Success != test.success {
				t.Errorf("got %+v", ends)
			}
			if done := s.status(task.TaskID); done.Status != remoteagent.Completed || done.Result != test.result {
				t.Errorf("got %+v", done)
			}
		})
	}
}

// A task that could not do what was asked says so, in its status and in its stream.
func TestDenialsAreReported(t *testing.T) {
	t.Parallel()
	s := open(t, setup{})
	task := s.say("/tool write_file {\"path\":\"a.go\",\"content\":\"x\"}\n/say It is written.")
	events := s.follow(task.TaskID, 0)
	if ends := find[remoteagent.ToolEnd](events); len(ends) != 1 || !ends[0].Denied || ends[0].Success {
		t.Errorf("got %+v, want a denied call", ends)
	}
	done := s.status(task.TaskID)
	want := remoteagent.Denial{Tool: "write_file", File: "a.go"}
	if len(done.Denials) != 1 || done.Denials[0].Tool != want.Tool || done.Denials[0].File != want.File ||
		!strings.Contains(done.Denials[0].Reason, `permissionMode "default"`) {
		t.Errorf("got %+v, want %+v with its reason", done.Denials, want)
	}
	if done.Status != remoteagent.Completed || done.StopReason != remoteagent.StopDenied {
		t.Errorf("got %s, %s, want completed, %s", done.Status, done.StopReason, remoteagent.StopDenied)
	}
	if result := find[remoteagent.Result](events)[0]; len(result.Denials) != 1 || result.StopReason != remoteagent.StopDenied {
		t.Errorf("got %+v, want the denial in the result too", result)
	}
	if len(s.status(s.finish(s.say("/say hi").TaskID).TaskID).Denials) != 0 {
		t.Error("a task without denials has some")
	}
}

// The operator sets the mode of tasks that name none, and the most that a task may ask for.
func TestThePermissionModeOfTheServer(t *testing.T) {
	t.Parallel()
	write := "/tool write_file {\"path\":\"a\",\"content\":\"x\"}\n/say on"
	tests := []struct {
		name         string
		env          env.AgentServer
		file         config.AgentServer
		asked        remoteagent.PermissionMode
		status, ends int // of the creation, and calls that were permitted
	}{
		{"of the environment", env.AgentServer{PermissionMode: "acceptEdits"}, config.AgentServer{}, "", http.StatusCreated, 1},
		{"of the file", env.AgentServer{}, config.AgentServer{PermissionMode: "acceptEdits"}, "", http.StatusCreated, 1},
		{"the environment before the file", env.AgentServer{PermissionMode: "default"}, config.AgentServer{PermissionMode: "acceptEdits"}, "",
			http.StatusCreated, 0},
		{"less than the default", env.AgentServer{PermissionMode: "acceptEdits"}, config.AgentServer{}, remoteagent.PermitDefault, http.StatusCreated, 0},
		{"as much as the maximum", env.AgentServer{MaxPermissionMode: "acceptEdits"}, config.AgentServer{}, remoteagent.PermitEdits, http.StatusCreated, 1},
		{"more than the maximum", env.AgentServer{MaxPermissionMode: "acceptEdits"}, config.AgentServer{}, remoteagent.PermitAll,
			http.StatusBadRequest, 0},
		{"more than the file's maximum", env.AgentServer{}, config.AgentServer{MaxPermissionMode: "default"}, remoteagent.PermitEdits,
			http.StatusBadRequest, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := open(t, setup{env: test.env, config: config.Config{AgentServer: test.file}})
			task, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: write, PermissionMode: test.asked}, "")
			if status := cmp.Or(refusal(err).HTTP, http.StatusCreated); status != test.status {
				t.Fatalf("got %d, %v, want %d", status, err, test.status)
			}
			if err != nil {
				if !strings.Contains(err.Error(), "maxPermissionMode") {
					t.Errorf("got %v, want the cure in it", err)
				}
				return
			}
			if done := s.finish(task.TaskID); 1-len(done.Denials) != test.ends {
				t.Errorf("got the denials %+v, want %d permitted calls", done.Denials, test.ends)
			}
		})
	}
}

// The hub's side: registration by a token, heartbeats, and the ends of tasks.
func TestHubGetsReports(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	dir := t.TempDir()
	setting := setup{env: envAt(dir), change: func(s *agentserver.Settings) {
		s.Hub, s.Token, s.URL, s.Heartbeat = hub.url, "one-time", "http://agent.test:4001", 20*time.Millisecond
	}}
	s := open(t, setting)
	task := s.finish(s.say("/say hi").TaskID)
	s.until("the hub knows of the task", func() bool { return len(hub.completions()) > 0 })
	s.until("the hub has heartbeats", func() bool { return hub.count(remoteagent.PathHeartbeat("agent-of-the-hub")) > 3 })
	info, err := s.Info(t.Context())
	if err != nil || info.LastHeartbeat.IsZero() {
		t.Errorf("got %+v, %v", info, err)
	}
	s.stop()
	if c := hub.completions(); len(c) != 1 || c[0].TaskID != task.TaskID || c[0].Status != remoteagent.Completed || c[0].Result != "hi" ||
		c[0].AgentID != "agent-of-the-hub" {
		t.Errorf("got %+v", c)
	}
	if !hub.goodbye() {
		t.Error("the last heartbeat does not say that the agent stops")
	}
	again := open(t, setting)
	again.until("it beats again", func() bool { return !hub.goodbye() })
	if n := hub.count(remoteagent.PathRegister); n != 1 {
		t.Errorf("it registered %d times, want once", n)
	}
	if c := hub.completions(); len(c) != 1 {
		t.Errorf("a task was reported again: %+v", c)
	}
}

func TestUnavailableHubGetsTheReportLater(t *testing.T) {
	t.Parallel()
	hub := newHub(t)
	hub.away(true)
	s := open(t, setup{change: func(s *agentserver.Settings) { s.Hub = hub.url }})
	s.finish(s.say("/say hi").TaskID)
	hub.away(false)
	s.until("the hub knows of the task", func() bool { return len(hub.completions()) == 1 })
}

func TestATaskNamesAnAllowedModel(t *testing.T) {
	t.Parallel()
	s := open(t, setup{config: config.Config{
		Agents:      map[string]config.Agent{"worker": {Backend: "scripted", Model: "own", Models: []string{"other"}}},
		AgentServer: config.AgentServer{Agent: "worker"},
	}})
	for model, allowed := range map[string]bool{
		"": true, "own": true, "other": true, "gpt-5-pro-super-expensive": false, strings.Repeat("x", 100<<10): false,
	} {
		s.until("the agent is free", func() bool {
			_, err := s.Create(t.Context(), remoteagent.Assignment{Prompt: "/say hi", Model: model}, "")
			r := refusal(err)
			if r.HTTP == http.StatusConflict {
				return false // the task before has not ended
			}
			if allowed && err != nil {
				t.Errorf("%q: got %v", model, err)
			}
			if !allowed && (r.HTTP != http.StatusBadRequest || r.Code != apierr.InvalidMessageFormat || len(err.Error()) > 1000) {
				t.Errorf("%.40q: got %.600v, want 400", model, err)
			}
			return true
		})
	}
}
