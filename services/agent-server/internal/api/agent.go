package api

import (
	"net/http"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// info serves GET /agent/info.
func (a *API) info(w http.ResponseWriter, r *http.Request) error {
	info, err := a.deps.Agent.Info(r.Context())
	if err != nil {
		return err
	}
	a.answer(w, r, http.StatusOK, info)
	return nil
}

// health serves GET /agent/health. The status is 200 for an unhealthy agent too: the body has its condition.
func (a *API) health(w http.ResponseWriter, r *http.Request) error {
	a.answer(w, r, http.StatusOK, a.deps.Agent.Health(r.Context()))
	return nil
}

// rotate serves POST /agent/keys.
func (a *API) rotate(w http.ResponseWriter, r *http.Request) error {
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	var rotation remoteagent.Rotation
	if err := json.Unmarshal(body, &rotation); err != nil {
		return invalid("the body is not a rotation of keys: %s", remoteagent.ExplainJSON(err))
	}
	rotated, err := a.deps.Keys.Rotate(r.Context(), rotation)
	if err != nil {
		return err
	}
	a.deps.Log.InfoContext(r.Context(), "the keys were rotated", "oldKeysValidUntil", rotated.OldKeysValidUntil)
	a.answer(w, r, http.StatusOK, rotated)
	return nil
}
