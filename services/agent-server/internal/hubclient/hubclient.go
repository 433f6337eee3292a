// Package hubclient reports to the hub, if one is configured: registration, heartbeats, and the ends of tasks (TARS hub
// protocol, Registration Flow and Heartbeat). For calls from the hub see package api.
package hubclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/retry"
	"github.com/agentbus/agentbus/pkg/telemetry"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
	"github.com/go-json-experiment/json"
)

// Store keeps what was reported to the hub.
type Store interface {
	Fact(ctx context.Context, name string) (string, error)
	PutFact(ctx context.Context, name, value string) error
	Unreported(ctx context.Context, limit int) ([]store.Entry, error)
	MarkReported(ctx context.Context, taskID string) error
}

// Deps are the dependencies of a client.
type Deps struct {
	Store     Store
	Hub       string // address
	Token     string // one-time set-up token; "" = the operator has registered the agent at the hub
	Register  func() remoteagent.Registration
	Condition func(ctx context.Context) (remoteagent.Condition, *remoteagent.Task)
	Key       func() string // registered with the hub
	AgentID   string
	Name      string
	Every     time.Duration // between two heartbeats
	Log       *slog.Logger
}

const (
	timeout   = 10 * time.Second // of one call
	firstWait = time.Second
	maxWait   = 5 * time.Minute
	pageSize  = 32
)

// Client is safe for concurrent use.
type Client struct {
	deps   Deps
	client *http.Client
	wake   chan struct{} // holds a token while a task may have ended

	mu   sync.Mutex
	id   string // the agent's id at the hub
	last time.Time
}

// New returns a client. It sends nothing before Run.
func New(deps Deps) *Client {
	deps.Hub = strings.TrimRight(deps.Hub, "/")
	return &Client{deps: deps, client: &http.Client{Timeout: timeout}, wake: make(chan struct{}, 1), id: deps.AgentID}
}

// LastHeartbeat is when the hub has taken the last one; zero = never.
func (u *Client) LastHeartbeat() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}

// Ended signals that a task may have ended.
func (u *Client) Ended() {
	select {
	case u.wake <- struct{}{}:
	default: // a token is there already
	}
}

// Run speaks to the hub until ctx is done, and then says good-bye.
func (u *Client) Run(ctx context.Context) error {
	if err := u.register(ctx); err != nil {
		return err
	}
	var both sync.WaitGroup
	both.Go(func() { u.beat(ctx) })
	both.Go(func() { u.report(ctx) })
	both.Wait()
	if ctx.Err() != nil {
		_ = u.heartbeat(context.WithoutCancel(ctx), true) // without it, the hub detects the stop by the missing heartbeats
	}
	return nil
}

// registered is the name of the fact that says where the agent is registered, and as what.
const registered = "registered"

// register brings the set-up token to the hub, once. What the hub refuses is for the operator: the agent works without.
func (u *Client) register(ctx context.Context) error {
	fact, err := u.deps.Store.Fact(ctx, registered)
	if err != nil {
		return err
	}
	if id, ok := strings.CutPrefix(fact, u.deps.Hub+" "); ok {
		u.mu.Lock()
		u.id = id
		u.mu.Unlock()
		return nil
	}
	if u.deps.Token == "" {
		return nil
	}
	var answer remoteagent.Registered
	ok := u.until(ctx, "register at the hub", func(ctx context.Context) error {
		registration := u.deps.Register()
		registration.Token = u.deps.Token
		return u.post(ctx, remoteagent.PathRegister, registration, &answer)
	})
	if !ok {
		return nil
	}
	id := cmp.Or(answer.ID, u.deps.AgentID)
	u.mu.Lock()
	u.id = id
	u.mu.Unlock()
	u.deps.Log.InfoContext(ctx, "registered at the hub", "hub", u.deps.Hub, telemetry.LogAgent, id)
	return u.deps.Store.PutFact(context.WithoutCancel(ctx), registered, u.deps.Hub+" "+id)
}

// beat sends heartbeats until ctx is done.
func (u *Client) beat(ctx context.Context) {
	every := time.NewTicker(u.deps.Every)
	defer every.Stop()
	for {
		if err := u.heartbeat(ctx, false); err != nil && ctx.Err() == nil {
			u.deps.Log.WarnContext(ctx, "the hub did not take a heartbeat", "hub", u.deps.Hub, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

func (u *Client) heartbeat(ctx context.Context, stopping bool) error {
	condition, current := u.deps.Condition(ctx)
	now := time.Now().UTC()
	id := u.agentID()
	err := u.post(ctx, remoteagent.PathHeartbeat(id), remoteagent.Heartbeat{
		AgentID: id, Status: condition, CurrentTask: current, Stopping: stopping, SentAt: now,
	}, nil)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last = now
	return nil
}

func (u *Client) agentID() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.id
}

// report reports tasks that have ended until ctx is done, each until the hub has confirmed it.
func (u *Client) report(ctx context.Context) {
	for {
		var entries []store.Entry
		u.until(ctx, "list the tasks to report to the hub", func(ctx context.Context) (err error) {
			entries, err = u.deps.Store.Unreported(ctx, pageSize)
			return err
		})
		for _, e := range entries {
			if !u.reportTask(ctx, e.Task) {
				return
			}
		}
		if len(entries) > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-u.wake:
		}
	}
}

// reportTask reports a task to the hub, and returns false if ctx is done. If the hub rejects the report, it is not
// repeated.
func (u *Client) reportTask(ctx context.Context, task remoteagent.Task) bool {
	u.until(ctx, "report a task to the hub", func(ctx context.Context) error {
		return u.postWithNewKey(ctx, remoteagent.PathWebhook, remoteagent.Completion{
			AgentID: u.agentID(), AgentName: u.deps.Name, TaskID: task.TaskID, SessionID: task.SessionID, Status: task.Status,
			Result: task.Result, Error: task.Error, StopReason: task.StopReason, CostUSD: task.CostUSD,
			TurnsCompleted: task.TurnsCompleted, FilesModified: task.FilesModified,
		})
	})
	if ctx.Err() != nil {
		return false
	}
	return u.until(ctx, "mark a task as reported to the hub", func(ctx context.Context) error {
		return u.deps.Store.MarkReported(ctx, task.TaskID)
	})
}

// postWithNewKey posts body, and retries if the hub does not accept the key: it may not have it yet.
func (u *Client) postWithNewKey(ctx context.Context, path string, body any) error {
	err := u.post(ctx, path, body, nil)
	refusal, refused := errors.AsType[*refusedError](err)
	if refused && (refusal.status == http.StatusUnauthorized || refusal.status == http.StatusForbidden) {
		return fmt.Errorf("the hub does not accept the agent's key: %s", refusal.Error())
	}
	return err
}

// until does something until it works; false = it was refused, or ctx is done.
func (u *Client) until(ctx context.Context, what string, do func(context.Context) error) bool {
	err := retry.Policy{
		First: firstWait, Longest: maxWait,
		Final: refused,
		Failed: func(err error, delay time.Duration) {
			u.deps.Log.WarnContext(ctx, what+": trying again", "hub", u.deps.Hub, "error", err, "in", delay)
		},
	}.Do(ctx, do)
	if refused(err) {
		u.deps.Log.ErrorContext(ctx, what+": the hub refused", "hub", u.deps.Hub, "error", err)
	}
	return err == nil
}

// refused reports whether an error is a refusal that no repetition changes.
func refused(err error) bool {
	refusal, ok := errors.AsType[*refusedError](err)
	return ok && !refusal.passing()
}

// refusedError is a response of the hub with a status other than 2xx.
type refusedError struct {
	status int
	body   string
}

// Error has the hub's response.
func (e *refusedError) Error() string {
	return fmt.Sprintf("the hub answered %d %s: %.200s", e.status, http.StatusText(e.status), e.body)
}

// passing reports whether the hub may answer otherwise later.
func (e *refusedError) passing() bool {
	switch e.status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	default:
		return e.status >= http.StatusInternalServerError
	}
}

func (u *Client) post(ctx context.Context, path string, body, answer any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the body of POST %s: %w", path, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.deps.Hub+path, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("address of the hub: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+u.deps.Key())
	response, err := u.client.Do(request)
	if err != nil {
		return err // says the method, the address and what went wrong
	}
	defer response.Body.Close()
	got, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if response.StatusCode >= http.StatusMultipleChoices {
		return &refusedError{response.StatusCode, string(got)}
	}
	if err != nil || answer == nil {
		return err
	}
	if err := json.Unmarshal(got, answer); err != nil {
		return fmt.Errorf("decode the answer to POST %s: %w; is %s a hub?", path, err, u.deps.Hub)
	}
	return nil
}
