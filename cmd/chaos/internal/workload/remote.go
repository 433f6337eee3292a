package workload

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/go-json-experiment/json"
)

// remote has the tenant's remote agent do something: by requests on one thread, or by a task that the hub is given.
func (u *user) remote(ctx context.Context) {
	if u.chance(50) {
		u.assigning(ctx)
		return
	}
	agent := u.group.Remote(u.tenant)
	thread := ""
	for range 1 + u.rng.IntN(2) {
		o := order{agent: agent, body: says(thread, u.distant()), key: u.label("key"), retryBusy: true}
		got, _ := u.post(ctx, o)
		if !got.taken() {
			return
		}
		thread = got.thread
		var aborting sync.WaitGroup
		if u.chance(25) {
			aborter, after := u.fork(), u.between(0, 3*time.Second)
			aborting.Go(func() {
				pause(ctx, after)
				aborter.abort(ctx, got.request)
			})
		}
		u.follow(ctx, u.newReader(), got.request, &transcript{})
		aborting.Wait()
	}
}

// distant is a script for an agent that runs its tools itself, away from the journal.
func (u *user) distant() string {
	lines := []string{fmt.Sprintf("/say %s %s", Secret(u.tenant), u.label("says"))}
	for i := range 1 + u.rng.IntN(4) {
		lines = append(lines, fmt.Sprintf(`/tool echo {"text":"%s","delay":"%dms"}`, u.label("echo"), u.rng.IntN(1500)),
			fmt.Sprintf("/say %s step %d", u.label("says"), i))
		if u.chance(30) {
			lines = append(lines, fmt.Sprintf("/stream %d %d", 10+u.rng.IntN(30), 20+u.rng.IntN(60)))
		}
	}
	return strings.Join(lines, "\n")
}

// assigning gives the hub a task, twice at the same time under one key, and asks about it until it has ended.
func (u *user) assigning(ctx context.Context) {
	key, script := u.label("key"), u.distant()
	body, err := json.Marshal(map[string]string{"task": script})
	if err != nil {
		panic(err) // a string always has a form
	}
	path := "/api/agents/" + u.group.Remote(u.tenant) + "/tasks"
	tasks := make([]string, 2)
	var twins sync.WaitGroup
	for i := range tasks {
		twin := u.fork()
		twins.Go(func() {
			tasks[i] = twin.callHub(ctx, oplog.Entry{Key: key, Body: script}, http.MethodPost, path, string(body)).TaskID
		})
	}
	twins.Wait()
	task := cmp.Or(tasks[0], tasks[1])
	if task == "" {
		return
	}
	if u.chance(25) && pause(ctx, u.between(0, 2*time.Second)) {
		u.callHub(ctx, oplog.Entry{Request: task, Cancel: true}, http.MethodPost, path+"/"+task+"/cancel", "")
	}
	for pause(ctx, 500*time.Millisecond) {
		if got := u.callHub(ctx, oplog.Entry{Request: task}, http.MethodGet, path+"/"+task, ""); got.Status != "" && got.Status.Finished() {
			return
		}
	}
}

// answer is what the hub says of a task.
type answer struct {
	TaskID string             `json:"taskId"`
	Status remoteagent.Status `json:"status"`
	Result string             `json:"result"`
}

// callHub calls the hub until it answers, and records each attempt.
func (u *user) callHub(ctx context.Context, entry oplog.Entry, method, path, body string) answer {
	for {
		got, status := u.callHubOnce(ctx, entry, method, path, body)
		again := status == 0 || status >= http.StatusInternalServerError || status == http.StatusConflict && method == http.MethodPost && !entry.Cancel
		if !again || !pause(ctx, u.between(50*time.Millisecond, 500*time.Millisecond)) {
			return got
		}
	}
}

func (u *user) callHubOnce(ctx context.Context, entry oplog.Entry, method, path, body string) (got answer, status int) {
	entry.At, entry.Actor, entry.Op, entry.Tenant = u.group.Log.Now(), u.name, oplog.Task, u.tenant
	defer func() { u.group.Log.Add(entry) }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	call, err := u.request(ctx, method, u.group.Hub+path, body)
	if err != nil {
		entry.Error = err.Error()
		return answer{}, 0
	}
	if entry.Key != "" {
		call.Header.Set("Idempotency-Key", entry.Key)
	}
	response, err := u.group.http.Do(call)
	if err != nil {
		entry.Error = err.Error()
		return answer{}, 0
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // a part of an answer is still an answer
	entry.Status, entry.Foreign = response.StatusCode, foreignIn(text, u.group.Tenants, u.tenant)
	if entry.Status >= http.StatusMultipleChoices {
		entry.Code = codeOf(entry.Status, text)
		return answer{}, entry.Status
	}
	if err := json.Unmarshal(text, &got); err != nil {
		entry.Error = err.Error()
		return answer{}, 0
	}
	entry.Request, entry.Code, entry.Result = got.TaskID, string(got.Status), got.Result
	return got, entry.Status
}
