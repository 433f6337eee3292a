package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/tool"
	"github.com/agentbus/agentbus/pkg/tool/mcp"
	"github.com/agentbus/agentbus/pkg/tool/mcp/mcptest"
	"github.com/agentbus/agentbus/pkg/tool/tooltest"
)

func TestMain(m *testing.M) {
	if mcptest.Main() {
		return
	}
	os.Exit(m.Run())
}

// running is a source that runs for as long as the test, or until stop, and what it has found.
type running struct {
	*mcp.Source
	found chan []tool.Spec
	stop  func()
}

func run(t *testing.T, o mcp.Options) running {
	t.Helper()
	source, err := mcp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r := running{Source: source, found: make(chan []tool.Spec, 16)}
	var runs sync.WaitGroup
	runs.Go(func() { source.Run(ctx, func(_ context.Context, specs []tool.Spec) { r.found <- specs }) })
	r.stop = func() { cancel(); runs.Wait() }
	t.Cleanup(r.stop)
	return r
}

// process are the options of a server that is this test's own binary.
func process(t *testing.T) mcp.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return mcp.Options{Name: "box", Command: self, Env: append(mcp.Environment(), mcptest.Environment+"=1")}
}

// site is a server by HTTP that can be made to forget its sessions, as one does that restarts.
type site struct {
	*httptest.Server
	cancelled chan struct{}
	current   atomic.Pointer[http.Handler]
	authority atomic.Pointer[string] // the Authorization of the last request
	user      atomic.Pointer[string] // the X-User of the last request that has one
}

func serve(t *testing.T) *site {
	t.Helper()
	s := &site{cancelled: make(chan struct{}, 8)}
	s.restart()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.authority.Store(new(r.Header.Get("Authorization")))
		if user := r.Header.Get("X-User"); user != "" {
			s.user.Store(&user)
		}
		(*s.current.Load()).ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		_ = s.Listener.Close() // first: a client could connect again
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *site) restart() {
	s.current.Store(new(mcptest.Handler(mcptest.New(func() { s.cancelled <- struct{}{} }))))
}

func (s *site) options() mcp.Options {
	return mcp.Options{Name: "site", URL: s.URL, Headers: map[string]string{"Authorization": "Bearer secret"}}
}

// both runs a test against a process and against HTTP.
func both(t *testing.T, test func(t *testing.T, r running)) {
	t.Parallel()
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		test(t, run(t, process(t)))
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		test(t, run(t, serve(t).options()))
	})
}

// call calls a tool by its name at the server.
func (r running) call(ctx context.Context, name, args string, progress func(string)) (tool.Result, error) {
	found, err := r.Tool(ctx, r.Name()+mcp.Separator+name)
	if err != nil {
		return tool.Result{}, err
	}
	return found.Call(ctx, tool.Call{ID: "call_1", Args: json.RawMessage(args), Progress: progress})
}

func quiet(string) {}

func TestToolsConform(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]mcp.Options{"stdio": process(t), "http": serve(t).options()} {
		r := run(t, o)
		add, err := r.Tool(t.Context(), o.Name+"__add")
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			tooltest.Run(t, add, tooltest.Cases{
				Good: []string{`{"a":1,"b":2}`, `{"a":-1,"b":0}`}, Bad: []string{`{}`, `{"a":"1","b":2}`, `{"a":1}`},
			})
		})
		slow, err := r.Tool(t.Context(), o.Name+"__slow")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := slow.Call(ctx, tool.Call{ID: "call_2", Progress: quiet}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v from a call that was cut off", name, err)
		}
	}
}

func TestHintsDecideEffectAndApproval(t *testing.T) {
	both(t, func(t *testing.T, r running) {
		specs := map[string]tool.Spec{}
		for _, spec := range <-r.found {
			specs[spec.Name] = spec
		}
		for name, want := range map[string]tool.Spec{
			"add":  {Effect: tool.EffectNone, Approval: tool.ApprovalNever},
			"meta": {Effect: tool.EffectIdempotent, Approval: tool.ApprovalAlways},
			"slow": {Effect: tool.EffectUnsafe, Approval: tool.ApprovalAlways},
		} {
			if got := specs[r.Name()+"__"+name]; got.Effect != want.Effect || got.Approval != want.Approval {
				t.Errorf("%s: got %s, %s, want %s, %s", name, got.Effect, got.Approval, want.Effect, want.Approval)
			}
		}
	})
}

func TestResults(t *testing.T) {
	both(t, func(t *testing.T, r running) {
		result, err := r.call(t.Context(), "add", `{"a":2,"b":3}`, quiet)
		if err != nil || result.Content != "5" {
			t.Errorf("add: got %q, %v", result.Content, err)
		}
		result, err = r.call(t.Context(), "picture", `{}`, quiet)
		if err != nil || result.Content != "a pixel" || len(result.Media) != 2 ||
			result.Media[0].Type != "image" || result.Media[1].Type != "file" || result.Media[1].Name != "notes.bin" {
			t.Errorf("picture: got %+v, %v", result, err)
		}
		result, err = r.call(t.Context(), "structured", `{}`, quiet)
		if err != nil || result.Content != `{"degrees":21}` {
			t.Errorf("structured: got %q, %v", result.Content, err)
		}
		_, err = r.call(t.Context(), "fail", `{}`, quiet)
		if apierr.CodeOf(err) != apierr.ToolError || apierr.From(err).Message != "the disk is full" {
			t.Errorf("fail: got %v", err)
		}
		_, err = r.call(t.Context(), "gone", `{}`, quiet)
		if apierr.CodeOf(err) != apierr.ToolError || !strings.Contains(apierr.From(err).Message, "no tool") {
			t.Errorf("gone: got %v", err)
		}
	})
}

func TestProgressIsReported(t *testing.T) {
	both(t, func(t *testing.T, r running) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		got := ""
		_, err := r.call(ctx, "count", `{}`, func(line string) {
			if got += line; strings.Count(got, "\n") == 3 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) || got != "one\n2 of 3\nthree\n" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestAServerThatGrowsIsListedAgain(t *testing.T) {
	both(t, func(t *testing.T, r running) {
		before := <-r.found
		if _, err := r.call(t.Context(), "grow", `{}`, quiet); err != nil {
			t.Fatal(err)
		}
		if after := <-r.found; len(after) != len(before)+1 {
			t.Fatalf("got %d tools, want one more than %d", len(after), len(before))
		}
		if result, err := r.call(t.Context(), "more", `{}`, quiet); err != nil || result.Content != "more" {
			t.Errorf("got %q, %v", result.Content, err)
		}
	})
}

func TestServerGetsACancellation(t *testing.T) {
	t.Parallel()
	s := serve(t)
	r := run(t, s.options())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := r.call(ctx, "slow", `{}`, quiet); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	select {
	case <-s.cancelled:
	case <-time.After(10 * time.Second):
		t.Error("the call still runs at the server")
	}
}

func TestAServerThatForgotUsIsConnectedAgain(t *testing.T) {
	t.Parallel()
	s := serve(t)
	r := run(t, s.options())
	<-r.found
	s.restart()
	result, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet)
	if err != nil || result.Content != "2" {
		t.Errorf("got %q, %v, want the call on a new session", result.Content, err)
	}
}

func TestExitedProcessIsRestarted(t *testing.T) {
	t.Parallel()
	r := run(t, process(t))
	<-r.found
	if _, err := r.call(t.Context(), "exit", `{}`, quiet); err == nil || apierr.CodeOf(err) == apierr.ToolError {
		t.Errorf("got %v, want an error that says nothing of what the call did", err)
	}
	<-r.found
	if result, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet); err != nil || result.Content != "2" {
		t.Errorf("got %q, %v", result.Content, err)
	}
}

func TestACallWaitsForABrokenProcess(t *testing.T) {
	t.Parallel()
	r := run(t, process(t))
	<-r.found
	for range 3 {
		if _, err := r.call(t.Context(), "exit", `{}`, quiet); err == nil {
			t.Fatal("the process did not exit")
		}
		if result, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet); err != nil || result.Content != "2" {
			t.Errorf("got %q, %v, want the result of the next process", result.Content, err)
		}
	}
}

func TestACallWaitsForAServerThatIsDown(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]http.HandlerFunc{
		"a proxy without its server": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"a cut connection":           func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t)
			r := run(t, s.options())
			<-r.found
			s.current.Store(new(http.Handler(down)))
			if _, err := r.call(t.Context(), "exit", `{}`, quiet); err == nil || strings.Contains(err.Error(), "refuses") {
				t.Errorf("an unsafe call: got %v, want an error that says nothing of what the call did", err)
			}
			back := time.AfterFunc(time.Second, s.restart)
			defer back.Stop()
			if result, err := r.call(t.Context(), "add", `{"a":1,"b":1}`, quiet); err != nil || result.Content != "2" {
				t.Errorf("got %q, %v, want the result of the server that is back", result.Content, err)
			}
		})
	}
}

func TestAServerThatIsNotReachedHasNotRunTheCall(t *testing.T) {
	t.Parallel()
	s := serve(t)
	r := run(t, s.options())
	<-r.found
	_ = s.Listener.Close() // first: a client could connect again
	s.CloseClientConnections()
	s.Close()
	var err error
	for range 2 { // the first request may use a connection that is open, and its outcome is then unknown
		if _, err = r.call(t.Context(), "exit", `{}`, quiet); apierr.CodeOf(err) == apierr.ToolError {
			break
		}
	}
	if apierr.CodeOf(err) != apierr.ToolError || !strings.Contains(err.Error(), "the call did not run") {
		t.Errorf("got %v, want an error that says that the call did not run", err)
	}
}

func TestServerProcessGroupIsKilled(t *testing.T) {
	t.Parallel()
	r := run(t, process(t))
	result, err := r.call(t.Context(), "spawn", `{}`, quiet)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(result.Content)
	if err != nil || syscall.Kill(pid, 0) != nil {
		t.Fatalf("got process %q, %v", result.Content, err)
	}
	r.stop()
	eventually(t, "all processes of the server are gone", func() bool { return !alive(pid) })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(10 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not yet: %s", what)
		}
	}
}

// alive reports whether a process runs. A process whose parent is gone may be a zombie.
func alive(pid int) bool {
	if runtime.GOOS != "linux" {
		return syscall.Kill(pid, 0) == nil
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestLastOutputOfAProcessIsReported(t *testing.T) {
	t.Parallel()
	var log safeBuffer
	r := run(t, mcp.Options{Name: "broken", Command: "sh", Args: []string{"-c", "echo no token given >&2; exit 1"}, Log: log.logger()})
	eventually(t, "the log has what it said", func() bool { return strings.Contains(log.String(), "no token given") })
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.Tool(ctx, "broken__x"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestOnlyNamedToolsAreOffered(t *testing.T) {
	t.Parallel()
	o := serve(t).options()
	var log safeBuffer
	o.Tools, o.Log = []string{"add", "subtract"}, log.logger()
	r := run(t, o)
	if specs := <-r.found; len(specs) != 1 || specs[0].Name != "site__add" {
		t.Errorf("got %v", specs)
	}
	if !strings.Contains(log.String(), "subtract") {
		t.Errorf("got %q, want a word on the tool that is not there", log.String())
	}
}

func TestAnEmptyListOffersNoTools(t *testing.T) {
	t.Parallel()
	o := serve(t).options()
	o.Tools = []string{}
	if specs := <-run(t, o).found; len(specs) != 0 {
		t.Errorf("got %v, want no tools", specs)
	}
}

func TestHeadersStayAtHome(t *testing.T) {
	t.Parallel()
	s := serve(t)
	r := run(t, s.options())
	<-r.found
	if got := *s.authority.Load(); got != "Bearer secret" {
		t.Errorf("got %q at the server", got)
	}
	elsewhere := serve(t)
	home := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	t.Cleanup(home.Close)
	var log safeBuffer
	run(t, mcp.Options{Name: "lost", URL: home.URL, Headers: map[string]string{"Authorization": "Bearer secret"}, Log: log.logger()})
	eventually(t, "a redirect to this machine is denied", func() bool { return strings.Contains(log.String(), "denied") })
	if got := elsewhere.authority.Load(); got != nil {
		t.Errorf("the other server was reached, with %q", *got)
	}
}

func TestAHeaderHasAValueOfTheContext(t *testing.T) {
	t.Parallel()
	s := serve(t)
	o := s.options()
	o.Headers["X-User"] = "u-{context.user.id}"
	r := run(t, o)
	<-r.found
	if got := s.user.Load(); got != nil {
		t.Errorf("a request that is not a call has the header %q", *got)
	}
	add, err := r.Tool(t.Context(), "site__add")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		does, context, want string
		code                apierr.Code
	}{
		{"without the value there is no header", `{}`, "", ""},
		{"control characters are refused", `{"user":{"id":"a\r\nb"}}`, "", apierr.ToolError},
		{"the value is filled in", `{"user":{"id":7}}`, "u-7", ""},
	}
	for _, test := range tests {
		_, err := add.Call(t.Context(), tool.Call{
			ID: "call_1", Args: json.RawMessage(`{"a":1,"b":2}`), Progress: quiet, Context: []byte(test.context),
		})
		if (err == nil) != (test.code == "") || err != nil && apierr.CodeOf(err) != test.code {
			t.Errorf("%s: got %v, want %q", test.does, err, test.code)
		}
		got := ""
		if user := s.user.Load(); user != nil {
			got = *user
		}
		if got != test.want {
			t.Errorf("%s: got the header %q, want %q", test.does, got, test.want)
		}
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		o    mcp.Options
	}{
		{"no name", mcp.Options{Command: "x"}},
		{"a long name", mcp.Options{Name: strings.Repeat("x", 25), Command: "x"}},
		{"neither command nor URL", mcp.Options{Name: "x"}},
		{"both", mcp.Options{Name: "x", Command: "x", URL: "http://127.0.0.1"}},
		{"a URL of something else", mcp.Options{Name: "x", URL: "ftp://example.com"}},
		{"a URL with a password", mcp.Options{Name: "x", URL: "https://a:b@example.com"}},
	}
	for _, tt := range tests {
		if _, err := mcp.New(tt.o); err == nil {
			t.Errorf("%s: got nil, want an error", tt.name)
		}
	}
}
