package agentserver_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/config/env"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/tool"
	agentserver "github.com/agentbus/agentbus/services/agent-server"
)

const key = "0123456789abcdef-test"

// server is an agent-server as it runs, on a real connection.
type server struct {
	*remoteagent.Client
	t      *testing.T
	url    string
	dir    string   // that tasks work in
	stop   func()   // ends the server as a signal does; waits for it
	routes []string // as the server lists them
}

// setup says how a server differs from one with a scripted agent, an empty root and one place.
type setup struct {
	env    env.AgentServer
	config config.Config
	change func(*agentserver.Settings)
}

// open starts a server on the folders of s.env, which are new ones where it names none.
func open(t *testing.T, s setup) *server {
	t.Helper()
	if s.env.DataDir == "" {
		s.env.DataDir = t.TempDir()
	}
	if s.env.Root == "" {
		s.env.Root = t.TempDir()
	}
	if s.env.Keys == "" {
		s.env.Keys = key
	}
	if s.config.AgentServer.Agent == "" {
		s.env.Backend = "scripted"
	}
	s.env.ID, s.env.Name = "home-pc-01", "Home PC"
	base := config.Default(func(string) string { return "" })
	base.Models["scripted"] = config.Model{Price: config.Price{Output: 1e4}} // a cent a word
	settings, err := agentserver.NewSettings(s.env, base.With(s.config), func(string) string { return "" },
		func(string) (string, error) { return "", errors.New("there are no secrets") })
	if err != nil {
		t.Fatal(err)
	}
	settings.Grace = 200 * time.Millisecond
	for _, subject := range []tool.Tool{untilStopped(), guarded()} {
		settings.Tools, settings.Agent.Tools = append(settings.Tools, subject), append(settings.Agent.Tools, subject.Spec())
	}
	if s.change != nil {
		s.change(&settings)
	}
	agent, err := agentserver.New(t.Context(), settings, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	running := serve(t, agent, string(s.env.Keys))
	running.dir = settings.Root
	return running
}

// root is the folder that tasks work in.
func (s *server) root() string { return s.dir }

// envAt names the folders of a server that is opened again.
func envAt(dir string) env.AgentServer {
	return env.AgentServer{DataDir: dir + "/data", Root: dir}
}

// untilStopped is a tool that prints a line and works until it is stopped.
func untilStopped() tool.Tool {
	spec := tool.Spec{
		Name: "wait", Description: "Waits.", Schema: []byte(`{"type":"object"}`), Effect: tool.EffectUnsafe, Timeout: time.Hour,
	}
	return tool.Func(spec, func(ctx context.Context, _ struct{}, call tool.Call) (tool.Result, error) {
		call.Progress("waiting\n")
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	})
}

// guarded is a tool that needs a person's leave.
func guarded() tool.Tool {
	spec := tool.Spec{
		Name: "guarded", Description: "Does what needs leave.", Schema: []byte(`{"type":"object"}`), Approval: tool.ApprovalAlways,
	}
	return tool.Func(spec, func(context.Context, struct{}, tool.Call) (tool.Result, error) {
		return tool.Result{Content: "it was done"}, nil
	})
}

func serve(t *testing.T, agent *agentserver.Server, keys string) *server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	web := httptest.NewServer(agent.Handler())
	stop := sync.OnceFunc(func() {
		agent.Drain()
		web.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
		if err := agent.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	first, _, _ := strings.Cut(keys, ",")
	s := &server{Client: remoteagent.NewClient(web.URL, first), t: t, url: web.URL, stop: stop, routes: agent.Routes()}
	s.Attempts = 1
	s.until("it answers", func() bool { _, err := s.List(ctx, remoteagent.Query{}); return err == nil || refusal(err).HTTP != 0 })
	return s
}

// until waits for something to become true.
func (s *server) until(what string, itIs func() bool) {
	s.t.Helper()
	waitTimeout := time.After(20 * time.Second)
	for !itIs() {
		select {
		case <-waitTimeout:
			s.t.Fatalf("waited in vain: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// create starts a task that must be taken.
func (s *server) create(a remoteagent.Assignment) remoteagent.Task {
	s.t.Helper()
	var task remoteagent.Task
	s.until("the server takes a task", func() (ok bool) {
		var err error
		task, err = s.Create(s.t.Context(), a, "")
		if err != nil && refusal(err).HTTP != http.StatusServiceUnavailable { // it has just started
			s.t.Fatal(err)
		}
		return err == nil
	})
	return task
}

// say starts a task of a script.
func (s *server) say(script string) remoteagent.Task {
	s.t.Helper()
	return s.create(remoteagent.Assignment{Prompt: script})
}

// follow gives the events of a task to its end.
func (s *server) follow(taskID string, after uint64) []remoteagent.Event {
	s.t.Helper()
	var events []remoteagent.Event
	for e, err := range s.Stream(s.t.Context(), taskID, after) {
		if err != nil {
			s.t.Fatalf("follow %s: %v", taskID, err)
		}
		events = append(events, e)
	}
	return events
}

// finish waits for the end of a task.
func (s *server) finish(taskID string) remoteagent.Task {
	s.t.Helper()
	s.follow(taskID, 0)
	return s.status(taskID)
}

func (s *server) status(taskID string) remoteagent.Task {
	s.t.Helper()
	task, err := s.Status(s.t.Context(), taskID)
	if err != nil {
		s.t.Fatal(err)
	}
	return task
}

// raw sends a request as it is, with the key unless the header has one.
func (s *server) raw(method, path, body string, header http.Header) (status int, answer string, got http.Header) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	maps.Copy(request.Header, header)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text), response.Header
}

// refusal is what a call was refused with; its zero value when it was not.
func refusal(err error) remoteagent.Refusal {
	r, ok := errors.AsType[*remoteagent.Refusal](err)
	if !ok {
		return remoteagent.Refusal{}
	}
	return *r
}

// names gives the events' names, those of one kind in a row once.
func names(events []remoteagent.Event) string {
	var all []string
	for _, e := range events {
		if name := e.Body.Name(); len(all) == 0 || all[len(all)-1] != name {
			all = append(all, name)
		}
	}
	return strings.Join(all, " ")
}
