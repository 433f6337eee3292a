package remoteagent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/go-json-experiment/json"
)

// Client talks to one spoke. Its fields may be changed before its first use; afterwards it is safe for concurrent use.
// What the spoke refuses is a [*Refusal] in the error's chain; any other error says that no good answer came.
type Client struct {
	HTTP     *http.Client  // without a timeout, because streams last long
	Idle     time.Duration // how long a stream may be silent before it counts as cut
	Attempts int           // how often in a row a stream is taken up again in vain

	base, key string
}

// NewClient returns a client of the spoke at address, for example "http://10.0.0.7:4001".
func NewClient(address, key string) *Client {
	return &Client{
		HTTP: &http.Client{}, Idle: time.Minute, Attempts: 10,
		base: strings.TrimRight(address, "/"), key: key,
	}
}

// Create starts a task. With the idempotency key it starts once, however often Create is called. If no answer arrives
// within [CreateTimeout], Create asks the agent-server whether it has the task (TARS hub protocol, Network Timeout),
// and returns that answer.
func (c *Client) Create(ctx context.Context, a Assignment, idempotencyKey string) (Task, error) {
	var task Task
	header := http.Header{IdempotencyKey: {idempotencyKey}}
	err := c.ask(ctx, CreateTimeout, http.MethodPost, "/tasks", header, a, &task)
	if _, refused := errors.AsType[*Refusal](err); err == nil || refused || ctx.Err() != nil {
		return task, err
	}
	if found, lookErr := c.List(ctx, Query{IdempotencyKey: idempotencyKey}); lookErr == nil && len(found) > 0 {
		return found[0], nil
	}
	return Task{}, err
}

// Query selects tasks. Its zero value selects all.
type Query struct {
	IdempotencyKey string
	Status         Status
	Limit          int // 0 = as many as the spoke gives
}

// List gives the tasks that q selects, the newest first.
func (c *Client) List(ctx context.Context, q Query) ([]Task, error) {
	values := url.Values{}
	if q.IdempotencyKey != "" {
		values.Set("idempotencyKey", q.IdempotencyKey)
	}
	if q.Status != "" {
		values.Set("status", string(q.Status))
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	path := "/tasks"
	if len(values) > 0 {
		path += "?" + values.Encode()
	}
	var list TaskList
	err := c.ask(ctx, AskTimeout, http.MethodGet, path, nil, nil, &list)
	return list.Tasks, err
}

// Status asks how a task does.
func (c *Client) Status(ctx context.Context, taskID string) (task Task, err error) {
	err = c.ask(ctx, AskTimeout, http.MethodGet, taskPath(taskID), nil, nil, &task)
	return task, err
}

// Cancel stops a task. One that has ended already is a Refusal with the code [TaskFinished].
func (c *Client) Cancel(ctx context.Context, taskID string) (answer Cancellation, err error) {
	err = c.ask(ctx, AskTimeout, http.MethodPost, taskPath(taskID)+"/cancel", nil, nil, &answer)
	return answer, err
}

// Answer gives a task the results of actions. A repeated answer has no further effect. A Refusal has the code
// [apierr.InvalidActionID] for an action that the task does not have, [ActionResolved] for one that has another result
// already or has expired, and [TaskFinished] for a task that has ended.
func (c *Client) Answer(ctx context.Context, taskID string, a Answer) (task Task, err error) {
	err = c.ask(ctx, AskTimeout, http.MethodPost, taskPath(taskID)+"/actions", nil, a, &task)
	return task, err
}

// Info asks what the agent is.
func (c *Client) Info(ctx context.Context) (info Info, err error) {
	err = c.ask(ctx, AskTimeout, http.MethodGet, "/agent/info", nil, nil, &info)
	return info, err
}

// Health asks how the agent does. One that is not well still answers, and gives no error.
func (c *Client) Health(ctx context.Context) (health Health, err error) {
	err = c.ask(ctx, AskTimeout, http.MethodGet, "/agent/health", nil, nil, &health)
	return health, err
}

// Rotate makes another key valid, and the client's current key for an overlap only. The client continues to use its
// current key.
func (c *Client) Rotate(ctx context.Context, r Rotation) (rotated Rotated, err error) {
	err = c.ask(ctx, AskTimeout, http.MethodPost, "/agent/keys", nil, r, &rotated)
	return rotated, err
}

// MaxFile is the size of the largest file that an agent-server returns, in bytes.
const MaxFile = 64 << 20

// File opens a file of the folder that a task works in, and returns its size. The caller closes it.
func (c *Client) File(ctx context.Context, taskID, name string) (io.ReadCloser, int64, error) {
	var path strings.Builder
	for part := range strings.SplitSeq(name, "/") {
		path.WriteString("/" + url.PathEscape(part))
	}
	request, err := c.newRequest(ctx, http.MethodGet, taskPath(taskID)+"/files"+path.String(), nil, nil)
	if err != nil {
		return nil, 0, err
	}
	response, err := c.send(request)
	if err != nil {
		return nil, 0, err
	}
	if response.ContentLength < 0 || response.ContentLength > MaxFile {
		_ = response.Body.Close()
		return nil, 0, fmt.Errorf("read file %s of task %s: a size of %d bytes is refused", name, taskID, response.ContentLength)
	}
	return response.Body, response.ContentLength, nil
}

func taskPath(taskID string) string { return "/tasks/" + url.PathEscape(taskID) }

// maxAnswer limits the body of a response that is not a stream, in bytes.
const maxAnswer = 16 << 20

func (c *Client) ask(ctx context.Context, limit time.Duration, method, path string, header http.Header, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := c.newRequest(ctx, method, path, header, body)
	if err != nil {
		return err
	}
	response, err := c.send(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer to %s %s: %w", method, path, err)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("decode the answer to %s %s: %w; is %s an agent server?", method, path, err, c.base)
	}
	return nil
}

func (c *Client) newRequest(ctx context.Context, method, path string, header http.Header, body any) (*http.Request, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s %s: %w", method, path, err)
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, reader)
	if err != nil {
		return nil, fmt.Errorf("address of the agent server: %w", err)
	}
	for name, values := range header {
		if values[0] != "" {
			request.Header.Set(name, values[0])
		}
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	return request, nil
}

// send returns a response with a good status; its body is the caller's to close.
func (c *Client) send(request *http.Request) (*http.Response, error) {
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, err // says the method, the address and what went wrong
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		defer response.Body.Close()
		return nil, refusalOf(response)
	}
	return response, nil
}

// refusalOf decodes an error response. A body in another format, such as a proxy's page, is converted.
func refusalOf(response *http.Response) *Refusal {
	r := &Refusal{}
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil || json.Unmarshal(text, r) != nil {
		r = &Refusal{}
	}
	r.HTTP = response.StatusCode
	r.Code = cmp.Or(r.Code, apierr.Internal)
	r.Message = cmp.Or(r.Message, r.Text, http.StatusText(r.HTTP))
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		r.RetryAfter = time.Duration(min(seconds, 3600)) * time.Second
	}
	return r
}
