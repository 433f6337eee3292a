package store_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/pgtest"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

var noon = time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, address string) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func agent() store.Agent {
	return store.Agent{
		ID: "home-pc-01", Tenant: "acme", Name: "Home PC", URL: "http://192.168.1.100:4001", SealedKey: "one",
		Capabilities: []string{"code", "test"}, DefaultCwd: "/home/user", DefaultModel: "m", BudgetUSD: 2.5, Online: true,
		LastHeartbeat: noon, CreatedAt: noon,
		PermissionMode: remoteagent.PermitEdits, AllowedTools: []string{"Read"}, SystemPrompt: "be brief",
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		run  func(*testing.T, *store.Store)
	}{
		{"an agent is kept as it was given", keepsAgents},
		{"an agent that comes again keeps what its tenant has set", replacesAgents},
		{"a key is replaced once for each one that was seen", rotates},
		{"a task under the same name is one task", keepsTasks},
		{"a task that has ended stays as it is", keepsEnds},
		{"costs are summed up by agent and time", sumsUp},
		{"a token opens once", usesTokens},
		{"tasks that ended long ago are deleted", trims},
	}
	addresses := map[string]func(*testing.T) string{
		"SQLite":     func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "hub.db") },
		"memory":     func(*testing.T) string { return "sqlite::memory:" },
		"PostgreSQL": func(t *testing.T) string { return pgtest.New(t) },
	}
	for database, address := range addresses {
		for _, tt := range tests {
			t.Run(database+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				tt.run(t, open(t, address(t)))
			})
		}
	}
}

func replacesAgents(t *testing.T, s *store.Store) {
	want, later := agent(), agent()
	if err := s.AddAgent(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	later.URL, later.SealedKey, later.DefaultCwd, later.DefaultModel, later.BudgetUSD = "http://other:4001", "two", "", "", 0
	later.PermissionMode, later.AllowedTools, later.SystemPrompt = "", nil, ""
	if err := s.PutAgent(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	want.URL, want.SealedKey = later.URL, later.SealedKey
	if got, err := s.Agent(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	later.Tenant = "others"
	if err := s.PutAgent(t.Context(), later); !errors.Is(err, store.ErrExists) {
		t.Errorf("from another tenant: got %v, want ErrExists", err)
	}
}

func keepsAgents(t *testing.T, s *store.Store) {
	want := agent()
	if err := s.AddAgent(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := s.AddAgent(t.Context(), want); !errors.Is(err, store.ErrExists) {
		t.Errorf("a second one of that id: got %v, want ErrExists", err)
	}
	got, err := s.Agent(t.Context(), want.ID)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	want.Name, want.AllowedTools, want.PermissionMode, want.BudgetUSD = "Lab", nil, "", 1
	if err := s.SetDefaults(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Agent(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with other defaults: got %+v, %v, want %+v", got, err, want)
	}
	want.AllowedTools = []string{}
	if err := s.SetDefaults(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Agent(t.Context(), want.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("without tools: got %+v, %v, want %+v", got, err, want)
	}
	if err := s.Offline(t.Context(), want.ID); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Agents(t.Context()); err != nil || len(all) != 1 || all[0].Online {
		t.Errorf("got %+v, %v, want one agent that is offline", all, err)
	}
	if err := s.Beat(t.Context(), want.ID, noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Agent(t.Context(), want.ID); err != nil || !got.Online || !got.LastHeartbeat.Equal(noon.Add(time.Minute)) {
		t.Errorf("after a heartbeat: got %+v, %v", got, err)
	}
	if err := s.RemoveAgent(t.Context(), want.ID); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"removed again": s.RemoveAgent(t.Context(), want.ID), "known": s.Beat(t.Context(), want.ID, noon),
		"lost": s.Offline(t.Context(), want.ID),
	} {
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an agent that is gone, %s: got %v, want ErrNotFound", what, err)
		}
	}
}

func rotates(t *testing.T, s *store.Store) {
	seen := agent()
	if err := s.AddAgent(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if err := s.Rotate(t.Context(), seen, "two", noon); err != nil {
		t.Fatal(err)
	}
	if err := s.Rotate(t.Context(), seen, "three", noon); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a key that is not there any more: got %v, want ErrNotFound", err)
	}
	got, err := s.Agent(t.Context(), seen.ID)
	if err != nil || got.SealedKey != "two" || got.SealedOldKey != "one" || !got.OldKeyUntil.Equal(noon) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func task(ref string) store.Task {
	return store.Task{Ref: ref, Tenant: "acme", AgentID: "home-pc-01", AgentName: "Home PC", Title: "build", Status: remoteagent.Running, CreatedAt: noon}
}

func keepsTasks(t *testing.T, s *store.Store) {
	first, err := s.AddTask(t.Context(), task("t1"))
	if err != nil || first.TaskID != "" {
		t.Fatalf("got %+v, %v", first, err)
	}
	first.TaskID, first.SessionID, first.Files = "task_1", "session_1", []string{"a.go"}
	if written, err := s.PutTask(t.Context(), first); err != nil || !written {
		t.Fatalf("got %v, %v", written, err)
	}
	again, err := s.AddTask(t.Context(), task("t1"))
	if err != nil || again.TaskID != "task_1" {
		t.Errorf("got %+v, %v, want the task that is there", again, err)
	}
	found, err := s.Task(t.Context(), hubapi.TaskRef{Tenant: "acme", AgentID: "home-pc-01", TaskID: "task_1"})
	if err != nil || found.Ref != "t1" || !reflect.DeepEqual(found.Files, []string{"a.go"}) {
		t.Errorf("got %+v, %v", found, err)
	}
	for name, r := range map[string]hubapi.TaskRef{
		"another tenant": {Tenant: "other", AgentID: "home-pc-01", TaskID: "task_1"},
		"another agent":  {Tenant: "acme", AgentID: "vm-1", TaskID: "task_1"},
		"no id":          {Tenant: "acme", AgentID: "home-pc-01"},
	} {
		if _, err := s.Task(t.Context(), r); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: got %v, want ErrNotFound", name, err)
		}
	}
	if err := s.DropTask(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if open, err := s.Open(t.Context()); err != nil || len(open) != 1 {
		t.Errorf("a task that an agent has is dropped: got %+v, %v", open, err)
	}
}

func keepsEnds(t *testing.T, s *store.Store) {
	one, err := s.AddTask(t.Context(), task("t1"))
	if err != nil {
		t.Fatal(err)
	}
	one.TaskID, one.Status, one.Result, one.EndedAt = "task_1", remoteagent.Completed, "built", noon.Add(time.Hour)
	one.Denials = []remoteagent.Denial{{Tool: "Write", Reason: "not permitted"}}
	if written, err := s.PutTask(t.Context(), one); err != nil || !written {
		t.Fatalf("got %v, %v", written, err)
	}
	late := one
	late.Status, late.EndedAt = remoteagent.Running, time.Time{}
	if written, err := s.PutTask(t.Context(), late); err != nil || written {
		t.Errorf("got %v, %v, want an end to stay", written, err)
	}
	got, err := s.Task(t.Context(), hubapi.TaskRef{Tenant: "acme", AgentID: "home-pc-01", TaskID: "task_1"})
	if err != nil || got.Status != remoteagent.Completed || got.Result != "built" || !reflect.DeepEqual(got.Denials, one.Denials) {
		t.Errorf("got %+v, %v", got, err)
	}
	if open, err := s.Open(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("got %+v, %v, want none open", open, err)
	}
}

func sumsUp(t *testing.T, s *store.Store) {
	for i, cost := range []struct {
		agent string
		usd   float64
		age   time.Duration
	}{{"a", 1.5, 0}, {"a", 0.25, time.Hour}, {"b", 2, 0}, {"a", 100, 48 * time.Hour}} {
		one := task("t" + string(rune('0'+i)))
		one.AgentID, one.CreatedAt = cost.agent, noon.Add(-cost.age)
		one, err := s.AddTask(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		one.TaskID, one.CostUSD = "x", cost.usd
		if _, err := s.PutTask(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Costs(t.Context(), "acme", noon.Add(-24*time.Hour))
	if want := map[string]float64{"a": 1.75, "b": 2}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := s.Costs(t.Context(), "other", time.Time{}); err != nil || len(got) != 0 {
		t.Errorf("another tenant: got %v, %v, want nothing", got, err)
	}
}

func trims(t *testing.T, s *store.Store) {
	for ref, ended := range map[string]time.Time{"old": noon, "new": noon.Add(time.Hour), "open": {}} {
		one, err := s.AddTask(t.Context(), task(ref))
		if err != nil {
			t.Fatal(err)
		}
		one.TaskID, one.EndedAt = ref, ended
		if _, err := s.PutTask(t.Context(), one); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Trim(t.Context(), noon.Add(time.Minute)); err != nil || n != 1 {
		t.Errorf("got %d deleted, %v, want 1", n, err)
	}
	for taskID, kept := range map[string]bool{"old": false, "new": true, "open": true} {
		if _, err := s.Task(t.Context(), hubapi.TaskRef{Tenant: "acme", AgentID: "home-pc-01", TaskID: taskID}); (err == nil) != kept {
			t.Errorf("%s: got %v, want kept %v", taskID, err, kept)
		}
	}
}

func usesTokens(t *testing.T, s *store.Store) {
	if err := s.AddToken(t.Context(), "hash", "acme", noon, noon.Add(30*time.Minute)); err != nil {
		t.Fatal(err)
	}
	if tenant, err := s.Token(t.Context(), "hash", noon.Add(29*time.Minute)); err != nil || tenant != "acme" {
		t.Errorf("got %q, %v", tenant, err)
	}
	if _, err := s.Token(t.Context(), "hash", noon.Add(31*time.Minute)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an old token: got %v, want ErrNotFound", err)
	}
	if err := s.UseToken(t.Context(), "hash"); err != nil {
		t.Fatal(err)
	}
	if err := s.UseToken(t.Context(), "hash"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a second use: got %v, want ErrNotFound", err)
	}
}

func TestDataSurvivesReopen(t *testing.T) {
	t.Parallel()
	address := "sqlite:" + filepath.Join(t.TempDir(), "hub.db")
	first, err := store.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.AddAgent(t.Context(), agent()), first.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, address).Agent(t.Context(), "home-pc-01"); err != nil || got.Name != "Home PC" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestInvalidAddressIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := store.Open(t.Context(), "mysql://root:secret@db"); err == nil {
		t.Error("it was opened")
	}
}
