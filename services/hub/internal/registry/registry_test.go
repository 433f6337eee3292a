package registry_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/keyseal"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/sqldb"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
	"github.com/go-json-experiment/json"
)

const key = "the-key-of-an-agent-server"

// published collects what a registry publishes.
type published struct {
	mu  sync.Mutex
	all []bus.AgentRecord
}

func (p *published) PutAgent(_ context.Context, a bus.AgentRecord) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = append(p.all, a)
	return nil
}

func (p *published) last(t *testing.T) bus.AgentRecord {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.all) == 0 {
		t.Fatal("nothing was published")
	}
	return p.all[len(p.all)-1]
}

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newRegistry(t *testing.T) (*registry.Registry, *published, *clock) {
	t.Helper()
	return newRegistryWith(t, time.Minute, time.Minute)
}

func newRegistryWith(t *testing.T, poll, offlineAfter time.Duration) (*registry.Registry, *published, *clock) {
	t.Helper()
	s, err := store.Open(t.Context(), sqldb.Memory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	vault, err := keyseal.New([]byte("a secret of the hub in a test"), "a test")
	if err != nil {
		t.Fatal(err)
	}
	p, c := new(published), &clock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	return registry.New(registry.Options{
		Store: s, Vault: vault, Publisher: p, HTTP: http.DefaultClient, Reserved: func(id string) bool { return id == "demo" },
		OfflineAfter: offlineAfter, Overlap: time.Minute, Poll: poll, Now: c.Now, Log: slog.New(slog.DiscardHandler),
	}), p, c
}

// newAgent starts an agent-server.
func newAgent(t *testing.T, info remoteagent.Info) string {
	t.Helper()
	server := httptest.NewServer(agentRoutes(t, info))
	t.Cleanup(server.Close)
	return server.URL
}

// agentRoutes serves the two routes of an agent-server that a registration reads.
func agentRoutes(t *testing.T, info remoteagent.Info) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		var body any = remoteagent.Health{Healthy: true}
		if strings.HasSuffix(r.URL.Path, "/info") {
			body = info
		}
		text, err := json.Marshal(body)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(text)
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	r, p, _ := newRegistry(t)
	url := newAgent(t, remoteagent.Info{AgentID: "vm-1", Name: "VM 1", Capabilities: []string{"code"}})
	a, err := r.Register(t.Context(), "acme", registry.Candidate{URL: url + "/", APIKey: key, DefaultModel: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if a.ID != "vm-1" || a.Name != "VM 1" || a.URL != url || len(a.Capabilities) != 1 || !a.Online || strings.Contains(a.SealedKey, key) {
		t.Errorf("got %+v, want what the agent says of itself, and its key sealed", a)
	}
	if got := p.last(t); got.ID != "vm-1" || got.Tenant != "acme" || !got.Online || got.Model != "m" {
		t.Errorf("published %+v, want the agent", got)
	}
	if got, err := r.Key(a); err != nil || got != key {
		t.Errorf("got the key %q and %v, want %q", got, err, key)
	}
	if _, err := r.Get(t.Context(), "acme", "vm-1"); err != nil {
		t.Error(err)
	}
	if _, err := r.Get(t.Context(), "globex", "vm-1"); apierr.CodeOf(err) != apierr.AgentNotFound {
		t.Errorf("another tenant: got %v, want agent_not_found", err)
	}
	for tenant, want := range map[string]int{"acme": 1, "globex": 0} {
		if all, err := r.List(t.Context(), tenant); err != nil || len(all) != want {
			t.Errorf("%s: got %d agents and %v, want %d", tenant, len(all), err, want)
		}
	}
	if err := r.Remove(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := p.last(t); got.ID != "vm-1" || !got.Removed {
		t.Errorf("published %+v, want that it is removed", got)
	}
}

func TestCandidatesThatAreRefused(t *testing.T) {
	t.Parallel()
	r, p, _ := newRegistry(t)
	url := newAgent(t, remoteagent.Info{AgentID: "vm-1"})
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	many := make([]string, 65)
	tests := []struct {
		name  string
		c     registry.Candidate
		names string // part of the error
	}{
		{"no URL", registry.Candidate{APIKey: key}, "url"},
		{"a path", registry.Candidate{URL: url + "/admin", APIKey: key}, "url"},
		{"a query", registry.Candidate{URL: url + "?x=1", APIKey: key}, "url"},
		{"a user in the URL", registry.Candidate{URL: strings.Replace(url, "//", "//user:password@", 1), APIKey: key}, "url"},
		{"another scheme", registry.Candidate{URL: "file:///etc/passwd", APIKey: key}, "url"},
		{"no key", registry.Candidate{URL: url}, "apiKey"},
		{"a key with a line break", registry.Candidate{URL: url, APIKey: "a\r\nX: y"}, "apiKey"},
		{"a wrong key", registry.Candidate{URL: url, APIKey: "wrong"}, "AGENT_KEYS"},
		{"a long name", registry.Candidate{URL: url, APIKey: key, Name: strings.Repeat("a", 1025)}, "1024"},
		{"a negative budget", registry.Candidate{URL: url, APIKey: key, BudgetUSD: -1}, "budgetUsd"},
		{"an id that is not a token", registry.Candidate{URL: url, APIKey: key, ID: "a.b"}, "id"},
		{"the id of a configured agent", registry.Candidate{URL: url, APIKey: key, ID: "demo"}, "another id"},
		{"too many capabilities", registry.Candidate{URL: url, APIKey: key, Capabilities: many}, "64 capabilities"},
		{"a server that does not run", registry.Candidate{URL: gone.URL, APIKey: key}, "no agent answers"},
	}
	for _, test := range tests {
		a, err := r.Register(t.Context(), "acme", test.c)
		if apierr.CodeOf(err) != apierr.InvalidMessageFormat || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%s: got %+v and %v, want an error with %q", test.name, a, err, test.names)
		}
	}
	if len(p.all) > 0 {
		t.Errorf("published %+v, want nothing", p.all)
	}
}

func TestAnIDIsOfOneTenant(t *testing.T) {
	t.Parallel()
	r, _, _ := newRegistry(t)
	url := newAgent(t, remoteagent.Info{AgentID: "vm-1"})
	c := registry.Candidate{URL: url, APIKey: key}
	if _, err := r.Register(t.Context(), "acme", c); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "globex"} {
		if _, err := r.Register(t.Context(), tenant, c); err == nil || !strings.Contains(err.Error(), "registered already") {
			t.Errorf("%s registers it again: got %v", tenant, err)
		}
	}
}

func TestSetupTokens(t *testing.T) {
	t.Parallel()
	r, _, now := newRegistry(t)
	url := newAgent(t, remoteagent.Info{AgentID: "vm-1"})
	use := func(token string) error {
		_, err := r.RegisterByToken(t.Context(), remoteagent.Registration{Token: token, URL: url, Key: key, ID: "vm-1"})
		return err
	}
	token, expires, err := r.Token(t.Context(), "acme")
	if err != nil || !expires.Equal(now.Now().Add(registry.TokenLife)) {
		t.Fatalf("got a token until %v and %v", expires, err)
	}
	if err := use(token + "x"); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("an unknown token: got %v", err)
	}
	if err := use(token); err != nil {
		t.Fatal(err)
	}
	if a, err := r.Get(t.Context(), "acme", "vm-1"); err != nil || a.URL != url {
		t.Errorf("got %+v and %v, want the agent of the token's tenant", a, err)
	}
	if err := use(token); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("a token that was used: got %v", err)
	}
	late, _, err := r.Token(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	now.advance(registry.TokenLife + time.Second)
	if err := use(late); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("a token that has expired: got %v", err)
	}
}

func TestAuthenticateAcceptsTheOldKeyDuringTheOverlap(t *testing.T) {
	t.Parallel()
	r, _, now := newRegistry(t)
	a, err := r.Register(t.Context(), "acme", registry.Candidate{URL: newAgent(t, remoteagent.Info{AgentID: "vm-1"}), APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	const newKey = "the-next-key-of-the-agent"
	if err := r.Store.Rotate(t.Context(), a, r.Vault.Seal(a.ID, newKey), now.Now().Add(r.Overlap)); err != nil {
		t.Fatal(err)
	}
	accepts := func(want map[string]bool) {
		t.Helper()
		for secret, ok := range want {
			_, err := r.Authenticate(t.Context(), "vm-1", secret)
			if ok && err != nil || !ok && apierr.CodeOf(err) != apierr.AuthFailed {
				t.Errorf("%q: got %v, want accepted: %v", secret, err, ok)
			}
		}
	}
	accepts(map[string]bool{key: true, newKey: true, "": false, newKey + "x": false})
	now.advance(r.Overlap)
	accepts(map[string]bool{key: false, newKey: true})
	if _, err := r.Authenticate(t.Context(), "vm-2", newKey); apierr.CodeOf(err) != apierr.AuthFailed {
		t.Errorf("an unknown agent: got %v, want the same error", err)
	}
}

func TestSignsOfLife(t *testing.T) {
	t.Parallel()
	r, p, _ := newRegistry(t)
	a, err := r.Register(t.Context(), "acme", registry.Candidate{URL: newAgent(t, remoteagent.Info{AgentID: "vm-1"}), APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	back := r.Await(a.ID)
	if err := r.Lost(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if p.last(t).Online {
		t.Error("an agent that is lost is published as online")
	}
	select {
	case <-back:
		t.Error("an agent that is lost wakes those that wait for it")
	default:
	}
	if a, err = r.Get(t.Context(), "acme", a.ID); err != nil || a.Online {
		t.Fatalf("got online %v and %v, want offline", a.Online, err)
	}
	if err := r.Alive(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	select {
	case <-back:
	default:
		t.Error("a sign of life wakes none of those that wait for it")
	}
	if !p.last(t).Online {
		t.Error("an agent that is back is not published as online")
	}
	before := len(p.all)
	if a, err = r.Get(t.Context(), "acme", a.ID); err != nil || !a.Online {
		t.Fatalf("got online %v and %v, want online", a.Online, err)
	}
	if err := r.Alive(t.Context(), a); err != nil || len(p.all) != before {
		t.Errorf("got %v and %d records, want that nothing new is published", err, len(p.all)-before)
	}
}

// The agent answers only its registration. The checks of the registry are made in real time, its clock is the test's.
func TestAnAgentIsOfflineAfterTwoMinutesWithoutAHeartbeat(t *testing.T) {
	t.Parallel()
	var silent atomic.Bool
	asked, routes := make(chan struct{}), agentRoutes(t, remoteagent.Info{AgentID: "vm-1"})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !silent.Load() {
			routes(w, r)
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		select {
		case asked <- struct{}{}:
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(agent.Close)
	r, _, now := newRegistryWith(t, time.Millisecond, remoteagent.OfflineAfter)
	a, err := r.Register(t.Context(), "acme", registry.Candidate{URL: agent.URL, APIKey: key})
	if err != nil {
		t.Fatal(err)
	}
	silent.Store(true)
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { done <- r.Run(ctx) }()

	now.advance(29 * time.Second) // a heartbeat may still come within its 30 seconds
	select {
	case <-asked:
		t.Error("the hub asks an agent whose heartbeat is not late")
	case <-time.After(50 * time.Millisecond):
	}
	now.advance(2*time.Minute - 30*time.Second)
	for range 3 { // the check of the first is over when the third is made
		<-asked
	}
	if a, err = r.Get(t.Context(), "acme", a.ID); err != nil || !a.Online {
		t.Errorf("got online %v and %v after 1:59, want online", a.Online, err)
	}
	now.advance(time.Second)
	for deadline := time.Now().Add(30 * time.Second); a.Online && time.Now().Before(deadline); {
		<-asked
		if a, err = r.Get(t.Context(), "acme", a.ID); err != nil {
			t.Fatal(err)
		}
	}
	if a.Online {
		t.Error("got online after 2:00, want offline")
	}
	stop()
	for {
		select {
		case <-asked:
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
}
