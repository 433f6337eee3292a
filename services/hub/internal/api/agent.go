package api

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/store"
)

// postRegister takes an agent that brings a set-up token.
func (a *API) postRegister(r *http.Request) (int, any, error) {
	var in remoteagent.Registration
	if err := read(r, &in); err != nil {
		return 0, nil, err
	}
	agent, err := a.registry.RegisterByToken(r.Context(), in)
	return http.StatusCreated, remoteagent.Registered{ID: agent.ID}, err
}

func (a *API) postHeartbeat(r *http.Request) (int, any, error) {
	agent, err := a.agent(r, r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	var beat remoteagent.Heartbeat
	if err := read(r, &beat); err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, a.registry.StoreHeartbeat(r.Context(), agent, beat)
}

// postWebhook handles the report that a task has ended. The body has the agent's id, so the key is checked after
// decoding it.
func (a *API) postWebhook(r *http.Request) (int, any, error) {
	if _, err := auth.Bearer(r.Header); err != nil {
		return 0, nil, err
	}
	var c remoteagent.Completion
	if err := read(r, &c); err != nil {
		return 0, nil, err
	}
	agent, err := a.agent(r, c.AgentID)
	if err != nil {
		return 0, nil, err
	}
	err = a.tasks.Completed(r.Context(), agent, c)
	if apierr.CodeOf(err) == apierr.RequestNotFound { // the task was created without the hub
		return http.StatusNoContent, nil, nil
	}
	return http.StatusNoContent, nil, err
}

// agent is the agent of that id, if the request has its key.
func (a *API) agent(r *http.Request, id string) (store.Agent, error) {
	key, err := auth.Bearer(r.Header)
	if err != nil {
		return store.Agent{}, err
	}
	agent, err := a.registry.Authenticate(r.Context(), id, key)
	if err != nil {
		return store.Agent{}, err
	}
	return agent, a.paced("agent " + id)
}
