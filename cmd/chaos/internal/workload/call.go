package workload

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// order is a request that a user wants made.
type order struct {
	agent     string // "" = demo
	follows   string // the request that it is a follow-up of; its agent and thread are meant
	body      event.AgentRequest
	key       string // "" = none, so that an attempt without an answer is not repeated
	gateway   string // that it goes to; "" = any
	stream    bool   // read its events in the same response
	reader    reader // with stream
	allow     bool   // what the action results say
	retryBusy bool   // also ask again while the thread is busy
}

func (o order) path() string {
	agent := "/v1/agents/" + cmp.Or(o.agent, "demo")
	switch {
	case o.follows != "":
		return "/v1/requests/" + o.follows + "/follow-up"
	case o.stream:
		return agent + "/stream" + o.reader.query()
	default:
		return agent + "/requests"
	}
}

// outcome is the result of a request as far as the user received it.
type outcome struct {
	status  int // of the last attempt; 0 = unknown
	request string
	thread  string
}

func (o outcome) taken() bool { return o.status/100 == 2 }

// post makes a request, again and again where the answer did not come and the order has a key.
func (u *user) post(ctx context.Context, o order) (outcome, *transcript) {
	seen := &transcript{}
	for {
		got := u.attempt(ctx, o, seen)
		again := got.status == 0 || got.status >= http.StatusInternalServerError || o.retryBusy && got.status == http.StatusConflict
		if !again || o.key == "" || !pause(ctx, u.between(50*time.Millisecond, 500*time.Millisecond)) {
			if got.taken() && got.request != "" {
				u.group.remember(u.tenant, got.request)
			}
			return got, seen
		}
	}
}

// attempt sends the request once.
func (u *user) attempt(ctx context.Context, o order, seen *transcript) outcome {
	log, gateway := u.group.Log, cmp.Or(o.gateway, u.gateway())
	body, err := json.Marshal(o.body)
	entry := oplog.Entry{
		At: log.Now(), Actor: u.name, Op: oplog.Post, Tenant: u.tenant, Gateway: gateway, Key: o.key,
		Body: string(body), Thread: o.body.ThreadID, Allow: o.allow, Stream: o.stream,
	}
	if o.follows == "" {
		entry.Agent = cmp.Or(o.agent, "demo")
	}
	for _, result := range o.body.Context.ActionResults {
		entry.Actions = append(entry.Actions, result.ActionID)
	}
	if err != nil {
		entry.Error = err.Error()
		log.Add(entry)
		return outcome{}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := u.request(ctx, http.MethodPost, gateway+o.path(), string(body))
	if err != nil {
		entry.Error = err.Error()
		log.Add(entry)
		return outcome{}
	}
	if o.key != "" {
		request.Header.Set("Idempotency-Key", o.key)
	}
	o.reader.accept(request)
	response, err := u.group.http.Do(request)
	if err != nil {
		entry.Error = err.Error()
		log.Add(entry)
		return outcome{}
	}
	defer func() { _ = response.Body.Close() }()
	got := outcome{
		status: response.StatusCode, request: response.Header.Get("X-Request-Id"), thread: response.Header.Get("X-Thread-Id"),
	}
	entry.Status, entry.Request, entry.Thread = got.status, got.request, got.thread
	if got.status != http.StatusOK || !o.stream {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // a part of an answer is still an answer
		entry.Code = codeOf(got.status, text)
		entry.Foreign = foreignIn(text, u.group.Tenants, u.tenant)
	}
	log.Add(entry)
	if got.status == http.StatusOK && o.stream {
		o.reader.read(ctx, cancel, u, connection{request: got.request, thread: got.thread, gateway: gateway, at: entry.At}, response.Body, seen)
	}
	return got
}

func (u *user) request(ctx context.Context, method, url, body string) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+u.group.Keys[u.tenant])
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// codeOf is the code of an answer that is an error event.
func codeOf(status int, body []byte) string {
	var failure struct {
		Code string `json:"code"`
	}
	if status < http.StatusBadRequest || json.Unmarshal(body, &failure) != nil {
		return ""
	}
	return failure.Code
}

// question is a small request about another one.
type question struct {
	op      oplog.Op
	method  string
	request string
	suffix  string // of the path
	key     string
	body    string
}

// ask sends a question and records it. It returns the status, 0 = unknown.
func (u *user) ask(ctx context.Context, q question) int {
	log, gateway := u.group.Log, u.gateway()
	entry := oplog.Entry{
		At: log.Now(), Actor: u.name, Op: q.op, Tenant: u.tenant, Gateway: gateway, Request: q.request, Key: q.key,
	}
	defer func() { log.Add(entry) }()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	call, err := u.request(ctx, q.method, gateway+"/v1/requests/"+q.request+q.suffix, q.body)
	if err != nil {
		entry.Error = err.Error()
		return 0
	}
	if q.key != "" {
		call.Header.Set("Idempotency-Key", q.key)
	}
	response, err := u.group.http.Do(call)
	if err != nil {
		entry.Error = err.Error()
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // as above
	entry.Status, entry.Code = response.StatusCode, codeOf(response.StatusCode, text)
	entry.Foreign = foreignIn(text, u.group.Tenants, u.tenant)
	entry.Steer = steerIn(text)
	return response.StatusCode
}

// steerIn is the id of a steer in an answer, or "".
func steerIn(body []byte) string {
	var answer struct {
		SteerID string `json:"steerId"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return ""
	}
	return answer.SteerID
}

// retryPost asks until there is an answer.
func (u *user) retryPost(ctx context.Context, q question) {
	for {
		status := u.ask(ctx, q)
		if status != 0 && status < http.StatusInternalServerError || !pause(ctx, u.between(50*time.Millisecond, 500*time.Millisecond)) {
			return
		}
	}
}

func (u *user) abort(ctx context.Context, request string) {
	u.retryPost(ctx, question{op: oplog.Abort, method: http.MethodPost, request: request, suffix: "/abort"})
}

// steer says something to a request that runs.
func (u *user) steer(ctx context.Context, request string) {
	u.retryPost(ctx, question{
		op: oplog.Steer, method: http.MethodPost, request: request, suffix: "/steer", key: u.label("key"),
		body: `{"messages":[{"role":"user","content":"/say as you wish"}]}`,
	})
}

// readForeign asks for what belongs to another tenant.
func (u *user) readForeign(ctx context.Context) {
	request := u.group.foreign(u)
	if request == "" {
		return
	}
	for _, q := range []question{
		{method: http.MethodGet},
		{method: http.MethodGet, suffix: "/stream"},
		{method: http.MethodPost, suffix: "/abort"},
		{method: http.MethodPost, suffix: "/steer", body: `{"messages":[{"role":"user","content":"/say let me in"}]}`},
		{method: http.MethodPost, suffix: "/follow-up", body: `{"messages":[{"role":"user","content":"/say let me in"}]}`},
	} {
		q.op, q.request = oplog.Spy, request
		u.ask(ctx, q)
	}
}

// Secret is a text that only its tenant may ever read.
func Secret(tenant string) string { return "canary-of-" + tenant }

// foreignIn returns the canary of another tenant in text, or "".
func foreignIn(text []byte, tenants []string, own string) string {
	for _, tenant := range tenants {
		if tenant != own && strings.Contains(string(text), Secret(tenant)) {
			return Secret(tenant)
		}
	}
	return ""
}
