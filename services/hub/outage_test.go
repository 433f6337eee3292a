package hub_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/internal/loopback"
	"github.com/agentbus/agentbus/internal/pgserver"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// database is a PostgreSQL server of the test's own.
type database struct {
	t       *testing.T
	url     string
	command *exec.Cmd // nil = stopped
	server  pgserver.Server
	args    []string // of the server's program
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	server, err := pgserver.NewTemporary(t.Context())
	if err != nil && cmp.Or(os.Getenv("AGENTBUS_REQUIRE_SERVERS"), "0") == "0" {
		t.Skipf("no PostgreSQL for this test: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	addr, err := new(loopback.Ports).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	args, err := server.Args(addr)
	if err != nil {
		t.Fatal(err)
	}
	d := &database{t: t, url: pgserver.URL(addr), server: server, args: args}
	t.Cleanup(func() {
		d.stop()
		if err := os.RemoveAll(server.Dir); err != nil {
			t.Error(err)
		}
	})
	d.start()
	return d
}

func (d *database) start() {
	d.t.Helper()
	c := exec.Command(d.server.Program, d.args...)
	c.Dir, c.SysProcAttr = d.server.Dir, &syscall.SysProcAttr{Credential: d.server.User}
	if err := c.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.command = c
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	if err := pgserver.Await(ctx, d.url); err != nil {
		d.t.Fatal(err)
	}
}

// stop ends the server and its connections.
func (d *database) stop() {
	if d.command == nil {
		return
	}
	_ = d.command.Process.Signal(syscall.SIGINT) // "fast shutdown"
	_ = d.command.Wait()
	d.command = nil
}

// While PostgreSQL is away, every question and every route is answered with unavailable and a time to come back, so that
// who asks waits; behind that the same questions are answered.
func TestADatabaseThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	d, m := newDatabase(t), newMachine(t)
	h := open(t, bustest.New(t), d.url, nearby())
	h.register(m)
	task := h.assign("the auth system")
	d.stop()
	for name, question := range h.questions(task.TaskID) {
		err := question(t.Context())
		if f := apierr.From(err); f == nil || f.Code != apierr.Unavailable || !errors.Is(err, hubapi.ErrSilent) {
			t.Errorf("%s: got %v, want unavailable of the hub itself", name, err)
		}
	}
	for _, route := range [][2]string{
		{http.MethodGet, "/api/agents"},
		{http.MethodGet, "/api/agents/vm-1"},
		{http.MethodDelete, "/api/agents/vm-1"},
		{http.MethodPost, "/api/agents/vm-1/key"},
		{http.MethodPost, "/api/agents/tokens"},
		{http.MethodGet, "/api/agents/vm-1/tasks/" + task.TaskID},
		{http.MethodPost, "/api/agents/vm-1/tasks/" + task.TaskID + "/cancel"},
		{http.MethodPost, remoteagent.PathHeartbeat("vm-1")},
	} {
		status, text := h.ask(route[0], route[1], machineKey, map[string]any{}, nil)
		if status != http.StatusServiceUnavailable {
			t.Errorf("%s %s: got %d %s, want 503", route[0], route[1], status, text)
		}
	}
	d.start()
	for name, question := range h.questions(task.TaskID) {
		eventually(t, func() error {
			if err := question(t.Context()); err != nil {
				return fmt.Errorf("%s, after the outage: %w", name, err)
			}
			return nil
		})
	}
}

// questions asks everything that the hub answers over the bus, except what its memory answers.
func (h house) questions(taskID string) map[string]func(context.Context) error {
	ref := ref(taskID)
	return map[string]func(context.Context) error{
		"assign_task": func(ctx context.Context) error {
			_, err := h.door.AssignTask(ctx, hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: "x", Key: "k1"})
			return err
		},
		"check_status": func(ctx context.Context) error {
			_, err := h.door.CheckStatus(ctx, ref)
			return err
		},
		"get_result": func(ctx context.Context) error {
			_, err := h.door.GetResult(ctx, ref)
			return err
		},
		"cancel_task": func(ctx context.Context) error {
			_, err := h.door.CancelTask(ctx, ref)
			return err
		},
		"list_agents": func(ctx context.Context) error {
			_, err := h.door.ListAgents(ctx, hubapi.AgentsQuery{Tenant: "default"})
			return err
		},
		"connect": func(ctx context.Context) error {
			_, err := h.door.Connect(ctx, hubapi.AgentRef{Tenant: "default", AgentID: "vm-1"})
			return err
		},
		"follow": func(ctx context.Context) error {
			_, err := h.door.Follow(ctx, hubapi.FollowQuery{TaskRef: ref})
			return err
		},
	}
}

// A task that the agent has taken while the database went away is found again by who asks for the same one.
func TestAnAssignmentGoesThroughAnOutageOnce(t *testing.T) {
	t.Parallel()
	d, m := newDatabase(t), newMachine(t)
	h := open(t, bustest.New(t), d.url, nearby())
	h.register(m)
	m.before = func() { d.stop() }
	a := hubapi.Assignment{Tenant: "default", AgentID: "vm-1", Task: "x", Key: "k1"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := h.door.AssignTask(ctx, a)
	if !errors.Is(err, hubapi.ErrSilent) {
		t.Fatalf("got %+v, %v, want the hub not to know", got, err)
	}
	d.start()
	for errors.Is(err, hubapi.ErrSilent) && ctx.Err() == nil {
		got, err = h.door.AssignTask(ctx, a)
	}
	if err != nil || got.TaskID != "task_1" || m.prompts() != "x" {
		t.Errorf("got %+v, %v, and the agent was given %q; want the task once", got, err, m.prompts())
	}
}
