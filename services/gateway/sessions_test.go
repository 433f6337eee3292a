package gateway_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/config"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/services/gateway"
	"github.com/go-json-experiment/json/jsontext"
)

// ofSessions are Tarko's routes that name a session.
func (b *bench) ofSessions() []route {
	var all []route
	for _, r := range b.routes() {
		if r.ofTarko() && !r.keyless() && !r.namesNothing() {
			all = append(all, r)
		}
	}
	if len(all) < 15 {
		b.t.Fatalf("the gateway serves only %v", all)
	}
	return all
}

// mention is a body that every such route takes as far as the session's owner.
func mention(sessionID string) string {
	return `{"sessionId":"` + sessionID + `","query":"hi","model":{"provider":"scripted","id":"m"},"messages":[{"role":"user","content":"x"}],"paths":[]}`
}

func TestSessionsBelongToTheirOwners(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	alice, _ := b.key("acme", "alice")
	bob, _ := b.key("acme", "bob")
	carol, _ := b.key("globex", "alice")
	id := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+alice).header.Get("X-Thread-Id")
	for _, r := range b.ofSessions() {
		path, body := r.with(target{threadID: id}, "q=x"), mention(id)
		if r.method == http.MethodGet {
			body = ""
		}
		for _, test := range []struct {
			who    string
			key    string
			status int
			says   string
		}{
			{"another owner", bob, http.StatusForbidden, `"error":"the thread belongs to another user"`},
			{"another tenant", carol, http.StatusNotFound, `"error":"Session not found"`},
			{"nobody", "ak_a_b", http.StatusUnauthorized, `"error":"`},
		} {
			a := b.do(b.request(r.method, path, body, "Authorization", "Bearer "+test.key))
			if a.status != test.status || !strings.Contains(a.body, test.says) {
				t.Errorf("%s for %s: got %d %s, want %d", r, test.who, a.status, a.body, test.status)
			}
		}
	}
	for _, open := range []string{"/api/v1/health", "/api/v1/version"} {
		if a := b.get(open); a.status != http.StatusOK {
			t.Errorf("%s: got %d, want no key to be needed", open, a.status)
		}
	}
}

func TestTheWorkspaceIsSeenByNameAndNothingOutsideIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.md"), []byte("secret words"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.Sessions.Workspaces = map[string]string{"default": dir} })
	_, id := b.accepted(hello)
	files := b.get("/api/v1/workspace/files?sessionId=" + id + "&path=/")
	if files.status != http.StatusOK || !strings.Contains(files.body, `"path":"/notes.md"`) || strings.Contains(files.body, "link") || strings.Contains(files.body, dir) {
		t.Errorf("got %d %s", files.status, files.body)
	}
	found := b.get("/api/v1/workspace/search?sessionId=" + id + "&q=note&type=file")
	if want := `{"items":[{"name":"notes.md","path":"/notes.md","type":"file","relativePath":"notes.md"}]}` + "\n"; found.body != want {
		t.Errorf("got %s, want %s", found.body, want)
	}
	checked := b.post("/api/v1/workspace/validate?sessionId="+id, `{"paths":["notes.md","link","../x"]}`)
	want := `{"results":[{"path":"notes.md","exists":true,"type":"file"},{"path":"link","exists":false},{"path":"../x","exists":false}]}` + "\n"
	if checked.body != want {
		t.Errorf("got %s, want %s", checked.body, want)
	}
}

func TestAWorkspaceIsItsTenants(t *testing.T) {
	t.Parallel()
	dirs := map[string]string{"acme": t.TempDir(), "globex": t.TempDir()}
	for tenant, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "plan-of-"+tenant), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := start(t, withKeys, func(d *gateway.Deps) { d.Config.Gateway.Sessions.Workspaces = dirs })
	for tenant, want := range map[string]string{"acme": "plan-of-acme", "globex": "plan-of-globex", "initech": ""} {
		key, _ := b.key(tenant, "alice")
		id := b.post("/v1/agents/demo/requests", hello, "Authorization", "Bearer "+key).header.Get("X-Thread-Id")
		found := b.get("/api/v1/workspace/search?q=plan&sessionId="+id, "Authorization", "Bearer "+key)
		if n := strings.Count(found.body, `"name":"plan-of`); found.status != http.StatusOK || !strings.Contains(found.body, want) || n != min(len(want), 1) {
			t.Errorf("%s: got %d %s, want %q alone", tenant, found.status, found.body, want)
		}
	}
}

func TestLargeQueryWithConfiguredLimit(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.MaxBody, d.Config.Gateway.Sessions.MaxBody = 1000, 5000 })
	large := strings.Repeat("x", 2000)
	a := b.post("/api/v1/sessions/create", `{"metadata":{"a":"`+large+`"}}`)
	if a.status != http.StatusCreated {
		t.Errorf("a session: got %d %s", a.status, a.body)
	}
	native := strings.Replace(hello, "hi", large, 1)
	if a := b.post("/v1/agents/demo/requests", native); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a native request: got %d %s", a.status, a.body)
	}
	if a := b.post("/api/v1/sessions/create", strings.Repeat(" ", 6000)); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.body, `"error":`) {
		t.Errorf("a body that is too large all the same: got %d %s", a.status, a.body)
	}
}

// made is the session that the first event of a oneshot's stream names.
func (b *bench) made(a answer) string {
	b.t.Helper()
	_, rest, found := strings.Cut(a.body, `"type":"session_created","sessionId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if a.status != http.StatusOK || !found || id != a.header.Get("X-Thread-Id") {
		b.t.Fatalf("got %d %v %s", a.status, a.header, a.body)
	}
	return id
}

func TestARetryOfAOneshotMeansTheSameSession(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(metadata(), done())
	const path = "/api/v1/oneshot/query/stream"
	ask := func(query string, headers ...string) answer { return b.post(path, `{"query":"`+query+`"}`, headers...) }
	first := b.made(ask("hi", "Idempotency-Key", "one"))
	if again := b.made(ask("hi", "Idempotency-Key", "one")); again != first {
		t.Errorf("the retry made session %s, want %s", again, first)
	}
	if other := b.made(ask("hi", "Idempotency-Key", "two")); other == first {
		t.Errorf("another key means the same session %s", other)
	}
	if a := ask("other", "Idempotency-Key", "one"); a.status != http.StatusUnprocessableEntity {
		t.Errorf("the key with another query: got %d %s", a.status, a.body)
	}
	if a := b.post(path+"?format=bad", `{"query":"hi"}`, "Idempotency-Key", "three"); a.status != http.StatusBadRequest {
		t.Errorf("an invalid format: got %d %s", a.status, a.body)
	}
}

func TestAOneshotInLinesHasNothingElse(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(metadata(), done())
	a := b.post("/api/v1/oneshot/query/stream", `{"query":"hi"}`, "Accept", "application/x-ndjson")
	lines := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
	for _, line := range lines {
		if !jsontext.Value(line).IsValid() {
			t.Errorf("a line is %q", line)
		}
	}
	if a.header.Get("Content-Type") != "application/x-ndjson" || !strings.Contains(lines[0], `"session_created"`) || len(lines) < 3 {
		t.Errorf("got %v %s", a.header, a.body)
	}
}

func TestAKeyIsForTheSessionThatTheURLNames(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.runs(metadata(), done())
	ask := func(sessionID string) answer {
		return b.post("/api/v1/sessions/query?sessionId="+sessionID, `{"query":"hi"}`, "Idempotency-Key", "one")
	}
	one, other := b.session(), b.session()
	if a := ask(one); a.status != http.StatusOK {
		t.Errorf("got %d %s", a.status, a.body)
	}
	if a := ask(one); a.status != http.StatusOK || a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a retry: got %d %v", a.status, a.header)
	}
	if a := ask(other); a.status != http.StatusUnprocessableEntity {
		t.Errorf("the key for another session: got %d %s", a.status, a.body)
	}
}

func TestAnAgentOfSessionsMustExist(t *testing.T) {
	t.Parallel()
	_, err := gateway.New(gateway.Deps{Config: config.Config{Gateway: config.Gateway{Sessions: config.Sessions{Agent: "nobody"}}}})
	if err == nil || !strings.Contains(err.Error(), "gateway.sessions.agent") {
		t.Errorf("got %v, want an error that names gateway.sessions.agent", err)
	}
}

func TestInExclusiveModeOneSessionOfATenantRuns(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) { d.Config.Gateway.Sessions.Exclusive = true })
	begin := map[string]string{"/api/v1/sessions/create": `{}`, "/api/v1/oneshot/query/stream": `{"query":"hi"}`}
	b.runs(metadata(), done())
	for _, test := range []struct {
		name, tenant string
		free         bool
	}{
		{"no request runs", "", true},
		{"another tenant runs something", "globex", true},
		{"the tenant runs something", "default", false},
	} {
		b.archive.mu.Lock()
		b.archive.runs = []historyapi.OpenRequest{{RequestRef: historyapi.RequestRef{Tenant: test.tenant, RequestID: "req_x"}, ThreadID: "thr_busy"}}
		b.archive.mu.Unlock()
		for path, body := range begin {
			a := b.post(path, body)
			refused := a.status == http.StatusConflict && strings.Contains(a.body, `"runningSessionId":"thr_busy"`) &&
				strings.Contains(a.body, "Server is in exclusive mode and another session is currently running")
			if refused == test.free || test.free && a.status >= http.StatusBadRequest {
				t.Errorf("%s: %s answers %d %s", test.name, path, a.status, a.body)
			}
		}
	}
}

func TestAModelAndItsAgentAreChosenTogether(t *testing.T) {
	t.Parallel()
	b := start(t, func(d *gateway.Deps) {
		d.Config.Agents = map[string]config.Agent{
			"demo": {Backend: "scripted"}, "small": {Backend: "openai", Model: "s", Models: []string{"m"}}, "large": {Backend: "openai", Model: "l"},
			"other": {Backend: "anthropic", Model: "o"},
		}
	})
	b.runs(metadata(), done())
	created := b.post("/api/v1/sessions/create", `{"agent":"small"}`)
	_, rest, _ := strings.Cut(created.body, `"sessionId":"`)
	id, _, _ := strings.Cut(rest, `"`)
	for _, step := range []struct {
		does, path, body, agent, model string
	}{
		{"nothing was chosen", "", "", "small", ""},
		{"a model that its agent allows", "sessions/model", `"model":{"provider":"openai","id":"m"}`, "small", "m"},
		{"a model that another agent of its provider allows", "sessions/model", `"model":{"provider":"openai","id":"l"}`, "large", "l"},
		{"one that it cannot", "sessions/model", `"model":{"provider":"anthropic","id":"o"}`, "other", "o"},
		{"an agent that cannot ask it", "runtime-settings", `"runtimeSettings":{"agent":"demo"}`, "demo", ""},
	} {
		if step.path != "" {
			a := b.post("/api/v1/"+step.path, `{"sessionId":"`+id+`",`+step.body+`}`)
			if a.status != http.StatusOK || !strings.Contains(a.body, `"agentInfo":{"name":"`+step.agent+`"`) {
				t.Errorf("%s: got %d %s, want the agent %s", step.does, a.status, a.body, step.agent)
			}
		}
		asked := b.post("/api/v1/sessions/query/stream", `{"sessionId":"`+id+`","query":"hi"}`)
		accepted, err := b.bus.Accepted(t.Context(), b.log(asked.header.Get("X-Request-Id")))
		if err != nil || accepted.AgentID != step.agent || accepted.Request.Context.Model != step.model {
			t.Errorf("%s: %s answers with %q, %v, want %s with %q", step.does, accepted.AgentID, accepted.Request.Context.Model, err, step.agent, step.model)
		}
	}
	if a := b.post("/api/v1/sessions/model", `{"sessionId":"`+id+`","model":{"provider":"anthropic","id":"l"}}`); a.status != http.StatusBadRequest {
		t.Errorf("an unknown model: got %d %s", a.status, a.body)
	}
}

func TestASessionWhoseRunDoesNotEndIsNotDeleted(t *testing.T) { // its runner does not take the abort
	t.Parallel()
	b := start(t)
	at := b.running()
	remove := func() answer { return b.post("/api/v1/sessions/delete", `{"sessionId":"`+at.threadID+`"}`) }
	if a := remove(); a.status != http.StatusConflict || !strings.Contains(a.body, `"runningRequestId":"`+at.requestID+`"`) {
		t.Errorf("while it runs: got %d %s", a.status, a.body)
	}
	b.run(at.requestID, done())
	if a := remove(); a.status != http.StatusOK || a.body != `{"success":true}`+"\n" {
		t.Errorf("afterwards: got %d %s", a.status, a.body)
	}
}

func TestAnUploadOfASessionNeedsTheScopeRun(t *testing.T) {
	t.Parallel()
	b := start(t, withKeys)
	owner, _ := b.key("default", "ada", auth.ScopeRun, auth.ScopeRead)
	reader, _ := b.key("default", "ada", auth.ScopeRead)
	id := b.session("Authorization", "Bearer "+owner)
	body := `{"sessionId":"` + id + `","upload":true}`
	if a := b.post("/api/v1/sessions/share", body, "Authorization", "Bearer "+reader); a.status != http.StatusUnauthorized ||
		!strings.Contains(a.body, `lacks the scope \"run\"`) {
		t.Errorf("a key that may only read: got %d %s, want 401", a.status, a.body)
	}
	if a := b.post("/api/v1/sessions/share", body, "Authorization", "Bearer "+owner); a.status != http.StatusBadRequest {
		t.Errorf("a key that may run, without a provider: got %d %s, want 400", a.status, a.body)
	}
}
