package permissions_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/permissions"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// natsServer is a server with the accounts that WriteFiles writes, and streams.
type natsServer struct{ dir, url string }

func startServer(t *testing.T) natsServer {
	t.Helper()
	s := natsServer{dir: t.TempDir()}
	if _, err := permissions.WriteFiles(s.dir, permissions.Options{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, "nats.conf")
	text := fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\ninclude %q\n", t.TempDir(), permissions.AccountsFile)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	options, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	options.NoSigs, options.NoLog = true, true
	running, err := server.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	running.Start()
	t.Cleanup(func() { running.Shutdown(); running.WaitForShutdown() })
	if !running.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	s.url = running.ClientURL()
	if err := s.bus(t, permissions.Provision).Provision(t.Context(), bus.Storage{Memory: true, MaxBytes: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s natsServer) bus(t *testing.T, role permissions.Role) *bus.Bus {
	t.Helper()
	b, err := bus.Connect(t.Context(), bus.Options{
		URL: s.url, Name: string(role), Credentials: bus.Credentials{NKeyFile: permissions.SeedFile(s.dir, string(role))},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// client is a plain connection with the key of a role, as a program that was taken over has it.
func (s natsServer) client(t *testing.T, role permissions.Role) *nats.Conn {
	t.Helper()
	nkey, err := nats.NkeyOptionFromSeed(permissions.SeedFile(s.dir, string(role)))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(s.url, nkey, nats.CustomInboxPrefix("_INBOX."+string(role)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// refused reports whether the server refuses what a role publishes, or a subscription if nothing is published.
func (s natsServer) refused(t *testing.T, role permissions.Role, publish, subscribe string) bool {
	t.Helper()
	nc := s.client(t, role)
	if publish != "" {
		if err := nc.Publish(publish, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	} else if _, err := nc.SubscribeSync(subscribe); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil { // the server sends the refusal before the answer to the flush
		t.Fatal(err)
	}
	err := nc.LastError()
	if err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatalf("got %v, want a refusal", err)
	}
	return err != nil
}

func TestEachRoleIsRefusedWhatItsTaskDoesNotNeed(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, c := range []struct {
		what      string
		roles     []permissions.Role
		publish   string
		subscribe string
	}{
		{"write events", []permissions.Role{"gateway", "tool-executor", "history", "hub", "agentbus-keys"}, "agentbus.event.default.req_1", ""},
		{"accept requests", []permissions.Role{"agent-runner", "history", "hub", "agentbus-keys"}, "agentbus.accept.default.req_1", ""},
		{"write the queue of a thread", []permissions.Role{"agent-runner", "history", "hub", "agentbus-keys"}, "agentbus.thread.default.thr_1", ""},
		{"write results of tools", []permissions.Role{"gateway", "agent-runner", "history", "hub"}, "agentbus.result.default.req_1.call_1", ""},
		{"call tools", []permissions.Role{"gateway", "tool-executor", "history", "hub"}, "agentbus.tool.default.builtin.req_1.call_1", ""},
		{"steer requests", []permissions.Role{"agent-runner", "tool-executor", "history", "hub"}, "agentbus.command.default.req_1.steer.s_1", ""},
		{"write API keys", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub"}, "$KV.AGENTBUS_KEYS.ak_1", ""},
		{"read API keys", []permissions.Role{"agent-runner", "tool-executor", "history"}, "$JS.API.DIRECT.GET.KV_AGENTBUS_KEYS.$KV.AGENTBUS_KEYS.ak_1", ""},
		{"write remote agents", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history"}, "$KV.AGENTBUS_AGENTS.a", ""},
		{"delete streams", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub", "agentbus-keys"}, "$JS.API.STREAM.DELETE.AGENTBUS_EVENTS", ""},
		{"purge streams", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub", "agentbus-keys"}, "$JS.API.STREAM.PURGE.AGENTBUS_EVENTS", ""},
		{"change streams", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub", "agentbus-keys"}, "$JS.API.STREAM.UPDATE.AGENTBUS_EVENTS", ""},
		{"delete messages of logs", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub", "agentbus-keys"}, "$JS.API.STREAM.MSG.DELETE.AGENTBUS_EVENTS", ""},
		{"create consumers of logs", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub", "agentbus-keys"}, "$JS.API.CONSUMER.CREATE.AGENTBUS_EVENTS.c", ""},
		{"take requests", []permissions.Role{"gateway", "tool-executor", "history", "hub"}, "$JS.API.CONSUMER.MSG.NEXT.AGENTBUS_REQUESTS.agent-runner", ""},
		{"take calls of tools", []permissions.Role{"gateway", "agent-runner", "history", "hub"}, "$JS.API.CONSUMER.MSG.NEXT.AGENTBUS_TOOLS.tool-executor", ""},
		{"acknowledge requests", []permissions.Role{"gateway", "tool-executor", "history", "hub"}, "$JS.ACK.AGENTBUS_REQUESTS.agent-runner.1.1.1.1.1", ""},
		{"read what is published before it is stored", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub"}, "", "agentbus.event.>"},
		{"read the responses that others receive", []permissions.Role{"agent-runner", "tool-executor", "history", "hub"}, "", "_INBOX.gateway.>"},
		{"read every response", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub", "agentbus-keys", "agentbus-provision"}, "", "_INBOX.>"},
		{"answer for history", []permissions.Role{"gateway", "agent-runner", "tool-executor", "hub"}, "", "agentbus.query.history.threads"},
		{"answer for the hub", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history"}, "", "agentbus.query.hub.list"},
		{"use the log as a client", []permissions.Role{"agentbus-client"}, "agentbus.accept.default.req_1", ""},
		{"read the log as a client", []permissions.Role{"agentbus-client"}, "", "agentbus.live.>"},
		{"answer prompts as a client", []permissions.Role{"agentbus-client"}, "", "agents.prompt.>"},
		{"see everything", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub", "agentbus-keys", "agentbus-provision"}, "", ">"},
		{"read the system's events", []permissions.Role{"gateway", "agent-runner", "tool-executor", "history", "hub"}, "", "$SYS.>"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			for _, role := range c.roles {
				if !s.refused(t, role, c.publish, c.subscribe) {
					t.Errorf("%s may %s", role, c.what)
				}
			}
		})
	}
}

func TestEachRoleMayDoItsTask(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, c := range []struct {
		role               permissions.Role
		publish, subscribe string
	}{
		{permissions.Gateway, "agentbus.accept.default.req_1", ""},
		{permissions.Gateway, "", "agentbus.live.event.default.req_1"},
		{permissions.Runner, "agentbus.event.default.req_1", ""},
		{permissions.Runner, "agentbus.command.default.req_1.abort", ""},
		{permissions.Executor, "agentbus.result.default.req_1.call_1", ""},
		{permissions.Hub, "", "agentbus.query.hub.list"},
		{permissions.Keys, "$KV.AGENTBUS_KEYS.ak_1", ""},
		{permissions.Client, "agents.prompt.demo.acme.agentbus", ""},
		{permissions.Client, "", "_INBOX.agentbus-client.x"},
	} {
		if s.refused(t, c.role, c.publish, c.subscribe) {
			t.Errorf("%s may not use %s%s", c.role, c.publish, c.subscribe)
		}
	}
}

func TestEachRoleMayVerifyTheStreams(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, role := range permissions.Roles() {
		if role == permissions.Client {
			continue // it uses no stream
		}
		if err := s.bus(t, role).Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
}

func TestAServiceResponds(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	history := s.bus(t, permissions.History)
	large := strings.Repeat("x", 3<<20) // in several parts
	go func() {
		served <- history.Serve(ctx, "history", map[string]bus.Handler{
			"threads": func(context.Context, []byte) (any, error) { return large, nil },
		})
	}()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	var got string
	gateway := s.bus(t, permissions.Gateway)
	for range 20 { // until the service has subscribed
		if err := gateway.Ask(t.Context(), "history", "threads", struct{}{}, &got); err == nil {
			break
		}
	}
	if len(got) != len(large) {
		t.Errorf("got %d bytes, want %d", len(got), len(large))
	}
}

func TestWriteFilesKeepsSeeds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := permissions.WriteFiles(dir, permissions.Options{})
	if err != nil || len(first) != len(permissions.Roles())+1 {
		t.Fatalf("got %d new seeds, %v; want one for each role and the system user", len(first), err)
	}
	before, err := os.ReadFile(filepath.Join(dir, permissions.AccountsFile))
	if err != nil {
		t.Fatal(err)
	}
	again, err := permissions.WriteFiles(dir, permissions.Options{})
	if err != nil || len(again) != 0 {
		t.Fatalf("got %d new seeds, %v; want none", len(again), err)
	}
	after, err := os.ReadFile(filepath.Join(dir, permissions.AccountsFile))
	if err != nil || string(after) != string(before) {
		t.Errorf("the accounts have changed (%v)", err)
	}
	if strings.Contains(string(after), "\"SU") {
		t.Error("the accounts contain a seed")
	}
	info, err := os.Stat(first[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v; want 0600", info.Mode(), err)
	}
	if err := os.WriteFile(first[0], []byte("not a seed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := permissions.WriteFiles(dir, permissions.Options{}); err == nil || !strings.Contains(err.Error(), first[0]) {
		t.Errorf("got %v, want an error that names the file", err)
	}
	if _, err := permissions.WriteFiles(t.TempDir(), permissions.Options{Prefix: "a.b"}); err == nil {
		t.Error("got no error for a prefix with a dot")
	}
}
