package api

import (
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

const (
	maxKey       = 255
	maxTurns     = 100_000
	maxToolNames = 1000
)

// create serves POST /tasks.
func (a *API) create(w http.ResponseWriter, r *http.Request) error {
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	assignment, err := decodeAssignment(body)
	if err != nil {
		return err
	}
	key := r.Header.Get(remoteagent.IdempotencyKey)
	if err := checkKey(key); err != nil {
		return err
	}
	task, fresh, err := a.deps.Scheduler.Submit(r.Context(), assignment, key)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/tasks/"+task.TaskID)
	if !fresh {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	a.answer(w, r, http.StatusCreated, task)
	return nil
}

// body reads what a client has sent, as JSON.
func (a *API) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if kind := r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" {
			return nil, remoteagent.Refuse(http.StatusUnsupportedMediaType, apierr.InvalidMessageFormat,
				"Content-Type is %.60q; send application/json", kind)
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, a.deps.MaxBody))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, remoteagent.Refuse(http.StatusRequestEntityTooLarge, apierr.MessageTooLarge,
			"the body is larger than %d bytes", a.deps.MaxBody)
	}
	if err != nil {
		return nil, remoteagent.Refuse(http.StatusBadRequest, apierr.InvalidMessageFormat, "the body did not come to its end")
	}
	return body, nil
}

// decodeAssignment reads a task, and says what is wrong with it.
func decodeAssignment(body []byte) (a remoteagent.Assignment, err error) {
	if err := json.Unmarshal(body, &a); err != nil {
		return a, invalid("the body is not a task: %s", remoteagent.ExplainJSON(err))
	}
	a.Extra = event.Members{} // what is not known here has no effect
	switch {
	case a.Prompt == "":
		return a, invalid("prompt is missing; say what the agent shall do")
	case a.PermissionMode != "" && !slices.Contains(remoteagent.PermissionModes(), a.PermissionMode):
		return a, invalid("permissionMode %.40q is not one of %q", a.PermissionMode, remoteagent.PermissionModes())
	case !a.Approvals.Known():
		return a, invalid("approvals %.40q is neither %q nor %q", a.Approvals, remoteagent.ApprovalsDeny, remoteagent.ApprovalsAsk)
	case a.MaxTurns < 0 || a.MaxTurns > maxTurns:
		return a, invalid("maxTurns is from 1 to %d; leave it out for the agent's own limit", maxTurns)
	case a.MaxBudgetUSD < 0 || math.IsInf(a.MaxBudgetUSD, 0) || math.IsNaN(a.MaxBudgetUSD):
		return a, invalid("maxBudgetUsd is more than 0; leave it out for the agent's own limit")
	case a.SessionID != "" && !id.Valid(a.SessionID):
		return a, remoteagent.Refuse(http.StatusNotFound, remoteagent.SessionNotFound, "sessionId %.64q cannot be one of ours", a.SessionID)
	case len(a.AllowedTools) > maxToolNames:
		return a, invalid("allowedTools has more than %d names", maxToolNames)
	}
	return a, nil
}

func invalid(format string, args ...any) error {
	return remoteagent.Refuse(http.StatusBadRequest, apierr.InvalidMessageFormat, format, args...)
}

func checkKey(key string) error {
	if len(key) > maxKey {
		return invalid("the Idempotency-Key is longer than %d bytes", maxKey)
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return invalid("the Idempotency-Key has a character that is not printable ASCII")
		}
	}
	return nil
}

// list serves GET /tasks.
func (a *API) list(w http.ResponseWriter, r *http.Request) error {
	q, err := query(r.URL.Query())
	if err != nil {
		return err
	}
	tasks, err := a.deps.Scheduler.Tasks(r.Context(), q)
	if err != nil {
		return err
	}
	a.answer(w, r, http.StatusOK, remoteagent.TaskList{Tasks: tasks})
	return nil
}

func query(values url.Values) (q remoteagent.Query, err error) {
	q = remoteagent.Query{IdempotencyKey: values.Get("idempotencyKey"), Status: remoteagent.Status(values.Get("status"))}
	if text := values.Get("limit"); text != "" {
		q.Limit, err = strconv.Atoi(text)
		if err != nil || q.Limit < 1 {
			return q, invalid("limit %.20q is not a number from 1", text)
		}
	}
	return q, nil
}

// status serves GET /tasks/:id.
func (a *API) status(w http.ResponseWriter, r *http.Request) error {
	task, err := a.task(r)
	if err != nil {
		return err
	}
	a.answer(w, r, http.StatusOK, task)
	return nil
}

func (a *API) task(r *http.Request) (remoteagent.Task, error) {
	taskID := r.PathValue("id")
	if !id.Valid(taskID) {
		return remoteagent.Task{}, remoteagent.Refuse(http.StatusNotFound, remoteagent.TaskNotFound, "there is no task %.64q", taskID)
	}
	return a.deps.Scheduler.Task(r.Context(), taskID)
}

// act serves POST /tasks/:id/actions.
func (a *API) act(w http.ResponseWriter, r *http.Request) error {
	task, err := a.task(r)
	if err != nil {
		return err
	}
	body, err := a.body(w, r)
	if err != nil {
		return err
	}
	answer, err := decodeAnswer(body)
	if err != nil {
		return err
	}
	if task, err = a.deps.Scheduler.Answer(r.Context(), task.TaskID, answer); err != nil {
		return err
	}
	a.answer(w, r, http.StatusOK, task)
	return nil
}

// decodeAnswer reads the results of actions, and says what is wrong with them.
func decodeAnswer(body []byte) (answer remoteagent.Answer, err error) {
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, invalid("the body is not an answer: %s", remoteagent.ExplainJSON(err))
	}
	if err := answer.Check(); err != nil {
		return answer, invalid("%s", err)
	}
	return answer, nil
}

// cancel serves POST /tasks/:id/cancel.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) error {
	task, err := a.task(r)
	if err != nil {
		return err
	}
	answer, err := a.deps.Scheduler.Cancel(r.Context(), task.TaskID)
	if err != nil {
		return err
	}
	a.answer(w, r, http.StatusOK, answer)
	return nil
}
