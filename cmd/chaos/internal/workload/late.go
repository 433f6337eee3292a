package workload

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/agentbus/agentbus/cmd/chaos/internal/oplog"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/go-json-experiment/json"
)

// The bounds of what is repeated late.
const (
	lateKeys    = 60 // that are used again
	lateThreads = 20 // that continue
	lateAtOnce  = 6
	lateWait    = 30 * time.Second // for each
	lateInAll   = 2 * time.Minute
)

// Late repeats posts of a run when the streams have forgotten it: the same key with the same body by both routes, with
// another body, and a next request on the same thread. It needs posts whose requests have ended.
func (c Users) Late(ctx context.Context, posts []oplog.Entry) {
	ctx, cancel := context.WithTimeout(ctx, lateInAll)
	defer cancel()
	transport := &http.Transport{MaxIdleConnsPerHost: lateAtOnce, ResponseHeaderTimeout: time.Minute, DisableCompression: true}
	defer transport.CloseIdleConnections()
	all := &group{Users: c, http: &http.Client{Transport: transport}, known: map[string][]string{}}
	todo := make(chan func())
	var working sync.WaitGroup
	for range lateAtOnce {
		working.Go(func() {
			for do := range todo {
				do()
			}
		})
	}
	rng := rand.New(rand.NewPCG(c.Seed, 1<<33)) //nolint:gosec // it must be repeatable
	rng.Shuffle(len(posts), func(i, j int) { posts[i], posts[j] = posts[j], posts[i] })
	for i, post := range posts[:min(len(posts), lateKeys)] {
		u := &user{group: all, name: "late", tenant: post.Tenant, scenario: i, rng: rand.New(rand.NewPCG(c.Seed, 1<<33+uint64(i)+1))} //nolint:gosec // as above
		todo <- func() { u.repeat(ctx, post, post.Body, i%2 == 0, false) }
		if i%3 == 0 {
			todo <- func() {
				u.fork().repeat(ctx, post, `{"messages":[{"role":"user","content":"/say another body"}]}`, i%2 == 0, true)
			}
		}
		if i < lateThreads {
			todo <- func() { u.continueThread(ctx, post) }
		}
	}
	close(todo)
	working.Wait()
}

// repeat sends a post again, until there is an answer.
func (u *user) repeat(ctx context.Context, post oplog.Entry, body string, stream, other bool) {
	suffix := "/requests"
	if stream {
		suffix = "/stream"
	}
	entry := oplog.Entry{Key: post.Key, Body: body, Stream: stream, Other: other, Original: post.Request, Thread: post.Thread}
	u.late(ctx, entry, "/v1/agents/"+post.Agent+suffix)
}

// continueThread sends the next request on a thread.
func (u *user) continueThread(ctx context.Context, post oplog.Entry) {
	body, err := json.Marshal(says(post.Thread, "/say later\n/say the end"))
	if err != nil {
		panic(err) // a request always has a form
	}
	u.late(ctx, oplog.Entry{Key: u.label("key"), Body: string(body), Stream: true, Thread: post.Thread}, "/v1/agents/"+post.Agent+"/stream")
}

// late posts until there is an answer, and reads a stream to its end.
func (u *user) late(ctx context.Context, entry oplog.Entry, path string) {
	ctx, cancel := context.WithTimeout(ctx, lateWait)
	defer cancel()
	entry.At, entry.Actor, entry.Op, entry.Tenant = u.group.Log.Now(), u.name, oplog.Late, u.tenant
	defer func() { u.group.Log.Add(entry) }()
	for {
		entry.Gateway = u.gateway()
		call, err := u.request(ctx, http.MethodPost, entry.Gateway+path, entry.Body)
		if err != nil {
			entry.Error = err.Error()
			return
		}
		call.Header.Set("Idempotency-Key", entry.Key)
		response, err := u.group.http.Do(call)
		if err == nil {
			entry.Status, entry.Request = response.StatusCode, response.Header.Get("X-Request-Id")
			var text []byte
			text, err = io.ReadAll(io.LimitReader(response.Body, 16<<20))
			_ = response.Body.Close() // everything was read
			entry.Code, entry.End = codeOf(entry.Status, text), endIn(text)
			if entry.Status == http.StatusOK && entry.Stream && entry.End == "" && err == nil {
				err = io.ErrUnexpectedEOF
			}
		}
		entry.Error = ""
		if err == nil && entry.Status < http.StatusInternalServerError {
			return
		}
		if err != nil {
			entry.Error = err.Error()
		}
		if !pause(ctx, 500*time.Millisecond) {
			return
		}
	}
}

// endIn is the name of the terminal event in a stream, or "".
func endIn(text []byte) oplog.End {
	r := reader{format: formatSSE}
	var end oplog.End
	var open bytes.Buffer
	for line := range bytes.Lines(text) {
		data, complete := r.take(&open, line)
		if !complete || len(data) == 0 {
			continue
		}
		if e, err := event.Decode(data); err == nil && event.IsTerminal(e.Body) {
			end = oplog.End(e.Body.Name())
		}
	}
	return end
}
