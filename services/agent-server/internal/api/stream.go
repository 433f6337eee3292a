package api

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/pkg/sse"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

// pageSize is how many events are read from storage at one time: what a slow reader holds.
const pageSize = 256

// stream serves GET /tasks/:id/stream. Each reader reads storage at its own pace, so that a slow one delays no others;
// the task continues when a reader disconnects.
func (a *API) stream(w http.ResponseWriter, r *http.Request) error {
	task, err := a.task(r)
	if err != nil {
		return err
	}
	after, over, err := a.begin(r, task)
	if err != nil {
		return err
	}
	if over { // stops an EventSource from reconnecting
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if r.Method == http.MethodHead {
		w.Header().Set("Content-Type", sse.ContentType)
		return nil
	}
	select {
	case a.streams <- struct{}{}:
		defer func() { <-a.streams }()
	default:
		refusal := remoteagent.Refuse(http.StatusServiceUnavailable, apierr.Unavailable, "%d streams are open already; close one", cap(a.streams))
		refusal.RetryAfter = 5 * time.Second
		return refusal
	}
	secret, _ := bearer(r)
	o := eventSink{
		w: w, connection: http.NewResponseController(w), api: a, taskID: task.TaskID, after: after, secret: secret,
	}
	o.open()
	if !o.run(r.Context()) {
		panic(http.ErrAbortHandler) // a clean end would look as if the task had none
	}
	return nil
}

// begin returns the event after which a stream begins. Without a Last-Event-ID a stream begins with the first event;
// for a finished task it has only the result (TARS hub protocol: "immediately send the result event and close").
func (a *API) begin(r *http.Request, task remoteagent.Task) (after uint64, over bool, err error) {
	newest, err := a.deps.Events.LastEvent(r.Context(), task.TaskID)
	if err != nil {
		return 0, false, err
	}
	header := r.Header.Get("Last-Event-ID")
	if header == "" {
		if task.Status.Finished() && newest.N > 0 {
			return newest.N - 1, false, nil
		}
		return 0, false, nil
	}
	after, err = strconv.ParseUint(header, 10, 64)
	if err != nil {
		return 0, false, invalid("Last-Event-ID %.40q is not a number; send the id of the last event that came", header)
	}
	if after > newest.N {
		return 0, false, invalid("Last-Event-ID %d is greater than the newest event, which is %d; leave it out to begin anew", after, newest.N)
	}
	return after, task.Status.Finished() && after == newest.N, nil
}

// eventSink is a stream on its way to one client.
type eventSink struct {
	w          http.ResponseWriter
	connection *http.ResponseController
	api        *API
	taskID     string
	after      uint64
	secret     string // the key that opened the stream
	buffer     []byte
}

// keyCheck is how often an open stream looks whether its key is still good.
const keyCheck = time.Second

func (o *eventSink) open() {
	_ = o.connection.SetReadDeadline(time.Time{}) // the client has nothing more to send
	header := o.w.Header()
	header.Set("Content-Type", sse.ContentType)
	header.Set("X-Accel-Buffering", "no")
	o.w.WriteHeader(http.StatusOK)
}

// run writes events until the last one, and reports whether that was written. It ends with the key.
func (o *eventSink) run(ctx context.Context) bool {
	heartbeat := time.NewTicker(o.api.deps.Heartbeat)
	defer heartbeat.Stop()
	check, checked := time.NewTicker(keyCheck), time.Now()
	defer check.Stop()
	if !o.flush() { // sends the headers: the client sees that it is connected
		return false
	}
	for {
		if time.Since(checked) >= keyCheck {
			if !o.api.deps.Keys.Good(o.secret) {
				return false
			}
			checked = time.Now()
		}
		news := o.api.deps.Events.News(o.taskID) // before the look, so that nothing falls between
		events, err := o.api.deps.Events.Events(ctx, o.taskID, o.after, pageSize)
		if err != nil {
			return false
		}
		if len(events) > 0 {
			over, ok := o.write(events)
			if over || !ok {
				return ok
			}
			continue
		}
		select {
		case <-news:
		case <-check.C:
		case <-heartbeat.C:
			o.buffer, _ = sse.AppendComment(o.buffer[:0], "heartbeat")
			if !o.flush() {
				return false
			}
		case <-o.api.stopping:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// write sends a page, and reports whether the last event is in it.
func (o *eventSink) write(events []store.Event) (over, ok bool) {
	o.buffer = o.buffer[:0]
	for _, e := range events {
		var err error
		o.buffer, err = sse.Append(o.buffer, strconv.FormatUint(e.N, 10), e.Name, []byte(e.Data))
		if err != nil {
			return false, false
		}
		o.after = e.N
		over = over || e.Name == remoteagent.Result{}.Name() || e.Name == remoteagent.Failure{}.Name()
	}
	return over, o.flush()
}

// flush sends what is in the buffer. A client that does not take it in time is dropped: it can come back.
func (o *eventSink) flush() bool {
	_ = o.connection.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := o.w.Write(o.buffer); err != nil {
		return false
	}
	return o.connection.Flush() == nil
}
