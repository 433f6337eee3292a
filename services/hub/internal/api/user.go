package api

import (
	"net/http"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/hubapi"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/agentbus/agentbus/services/hub/internal/store"
	"github.com/agentbus/agentbus/services/hub/internal/task"
	"github.com/go-json-experiment/json"
)

func (a *API) postAgent(r *http.Request, p auth.Principal) (int, any, error) {
	var c registry.Candidate
	if err := read(r, &c, json.RejectUnknownMembers(true)); err != nil {
		return 0, nil, err
	}
	agent, err := a.registry.Register(r.Context(), p.Tenant, c)
	return http.StatusCreated, task.Public(agent, 0), err
}

func (a *API) getAgents(r *http.Request, p auth.Principal) (int, any, error) {
	list, err := a.tasks.ListAgents(r.Context(), hubapi.AgentsQuery{Tenant: p.Tenant, Live: r.URL.Query().Get("live") == "true"})
	return http.StatusOK, list, err
}

func (a *API) getAgent(r *http.Request, p auth.Principal) (int, any, error) {
	list, err := a.tasks.ListAgents(r.Context(), hubapi.AgentsQuery{Tenant: p.Tenant})
	if err != nil {
		return 0, nil, err
	}
	for _, agent := range list.Agents {
		if agent.ID == r.PathValue("id") {
			return http.StatusOK, agent, nil
		}
	}
	return 0, nil, apierr.New(apierr.AgentNotFound, "there is no remote agent %.64q; GET /api/agents lists them", r.PathValue("id"))
}

// patchAgent changes the name of an agent, its budget, and the defaults of its tasks.
func (a *API) patchAgent(r *http.Request, p auth.Principal) (int, any, error) {
	var change registry.Change
	if err := read(r, &change, json.RejectUnknownMembers(true)); err != nil {
		return 0, nil, err
	}
	agent, err := a.registry.Get(r.Context(), p.Tenant, r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	if agent, err = a.registry.Change(r.Context(), agent, change); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, task.Public(agent, 0), nil
}

func (a *API) deleteAgent(r *http.Request, p auth.Principal) (int, any, error) {
	agent, err := a.registry.Get(r.Context(), p.Tenant, r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, a.registry.Remove(r.Context(), agent)
}

// postKey replaces the key of an agent. The response does not have the new key.
func (a *API) postKey(r *http.Request, p auth.Principal) (int, any, error) {
	var in struct {
		APIKey string `json:"apiKey"` // "" = the hub makes one, and gives it to the agent
	}
	if err := read(r, &in, json.RejectUnknownMembers(true)); err != nil {
		return 0, nil, err
	}
	agent, err := a.registry.Get(r.Context(), p.Tenant, r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	until, err := a.registry.Rotate(r.Context(), agent, in.APIKey)
	return http.StatusOK, struct {
		ID               string    `json:"id"`
		OldKeyValidUntil time.Time `json:"oldKeyValidUntil"`
	}{agent.ID, until}, err
}

func (a *API) postToken(r *http.Request, p auth.Principal) (int, any, error) {
	token, expires, err := a.registry.Token(r.Context(), p.Tenant)
	return http.StatusCreated, struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expiresAt"`
	}{token, expires}, err
}

// assignment is the body of postTask, with the names of the TARS hub protocol.
type assignment struct {
	Task          string  `json:"task"`
	Cwd           string  `json:"cwd"`
	MaxTurns      int     `json:"maxTurns"`
	MaxBudgetUSD  float64 `json:"maxBudgetUsd"`
	ResumeSession string  `json:"resumeSession"`

	SystemPrompt   string                     `json:"systemPrompt"`
	PermissionMode remoteagent.PermissionMode `json:"permissionMode"`
	AllowedTools   []string                   `json:"allowedTools"`
	Model          string                     `json:"model"`
	Approvals      remoteagent.Approvals      `json:"approvals"`
}

// maxKey is the longest Idempotency-Key, in bytes.
const maxKey = 255

func (a *API) postTask(r *http.Request, p auth.Principal) (int, any, error) {
	var in assignment
	if err := read(r, &in, json.RejectUnknownMembers(true)); err != nil {
		return 0, nil, err
	}
	key := r.Header.Get("Idempotency-Key")
	if len(key) > maxKey {
		return 0, nil, apierr.New(apierr.InvalidMessageFormat, "the Idempotency-Key has more than %d characters", maxKey)
	}
	if key != "" { // separates the keys of HTTP clients from those of programs on the bus
		key = "http " + p.Subject + " " + key
	}
	t, err := a.tasks.AssignTask(r.Context(), hubapi.Assignment{
		Tenant: p.Tenant, AgentID: r.PathValue("id"), Task: in.Task, Cwd: in.Cwd, MaxTurns: in.MaxTurns,
		MaxBudgetUSD: in.MaxBudgetUSD, ResumeSession: in.ResumeSession, Key: key, SystemPrompt: in.SystemPrompt,
		PermissionMode: in.PermissionMode, AllowedTools: in.AllowedTools, Model: in.Model,
		Approvals: in.Approvals,
	})
	return http.StatusCreated, t, err
}

// Bounds of a page of tasks.
const (
	defaultPage = 50
	maxPage     = 200
)

func (a *API) getTasks(r *http.Request, p auth.Principal) (int, any, error) {
	values := r.URL.Query()
	q := store.TaskQuery{
		Tenant: p.Tenant, AgentID: r.PathValue("id"), Status: remoteagent.Status(values.Get("status")), Before: values.Get("before"),
		Limit: defaultPage,
	}
	if text := values.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return 0, nil, apierr.New(apierr.InvalidMessageFormat, "limit %.20q is not a number from 1 to %d", text, maxPage)
		}
		q.Limit = n
	}
	if q.Before != "" && !id.Valid(q.Before) {
		return 0, nil, apierr.New(apierr.InvalidMessageFormat, "before %.64q is not the id of a task; send next of the page before", q.Before)
	}
	list, err := a.tasks.List(r.Context(), q)
	return http.StatusOK, list, err
}

func (a *API) getTask(r *http.Request, p auth.Principal) (int, any, error) {
	t, err := a.tasks.CheckStatus(r.Context(), ref(r, p))
	return http.StatusOK, t, err
}

func (a *API) postCancel(r *http.Request, p auth.Principal) (int, any, error) {
	c, err := a.tasks.CancelTask(r.Context(), ref(r, p))
	switch {
	case c.Late:
		return http.StatusConflict, c, err
	case c.Pending:
		return http.StatusAccepted, c, err
	default:
		return http.StatusOK, c, err
	}
}

// postActions gives a task the results of its actions.
func (a *API) postActions(r *http.Request, p auth.Principal) (int, any, error) {
	var in remoteagent.Answer
	if err := read(r, &in, json.RejectUnknownMembers(true)); err != nil {
		return 0, nil, err
	}
	t, err := a.tasks.AnswerTask(r.Context(), hubapi.Answer{TaskRef: ref(r, p), Answer: in})
	return http.StatusOK, t, err
}

func ref(r *http.Request, p auth.Principal) hubapi.TaskRef {
	return hubapi.TaskRef{Tenant: p.Tenant, AgentID: r.PathValue("id"), TaskID: r.PathValue("taskId")}
}
