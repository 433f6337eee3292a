package editor

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/agentbus/agentbus/pkg/acp"
	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
	jsonv2 "github.com/go-json-experiment/json"
)

// abortTime is how long a turn that the user has cancelled waits for the end of its request.
const abortTime = 10 * time.Second

// turn is a prompt: one request, and one more after each answer of the user to its actions.
type turn struct {
	session   *session
	before    *turn // the turn before it; nil = it has ended
	once      sync.Once
	cancelled chan struct{} // closed when the user cancels it
	ended     chan struct{} // closed at its end
}

func (t *turn) cancel() { t.once.Do(func() { close(t.cancelled) }) }

func (t *turn) end() { close(t.ended) }

func (t *turn) isCancelled() bool {
	select {
	case <-t.cancelled:
		return true
	default:
		return false
	}
}

func (t *turn) wait(ctx context.Context) error {
	select {
	case <-t.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// prompt begins a turn at once, so that a cancellation which follows the prompt finds it.
func (s *Server) prompt(params json.RawMessage) answer {
	p, err := acp.Decode[acp.PromptRequest](params)
	if err != nil {
		return refusal(err)
	}
	found, err := s.find(p.SessionID)
	if err != nil {
		return refusal(err)
	}
	t := found.begin()
	return func(ctx context.Context) (any, error) {
		defer t.end()
		return t.run(ctx, p.Prompt)
	}
}

// run sends the prompt, and the answers to actions until none is open.
func (t *turn) run(ctx context.Context, prompt []acp.Content) (any, error) {
	if t.before != nil {
		if err := t.before.wait(ctx); err != nil {
			return nil, err
		}
		t.before = nil
	}
	message, err := userMessage(prompt)
	if err != nil {
		return nil, err
	}
	questions, open, remark := t.session.take()
	if remark != "" {
		if err := t.session.say("warning", remark); err != nil {
			return nil, err
		}
	}
	request := event.AgentRequest{Messages: []event.InputMessage{message}}
	if len(open) > 0 { // of a session that was loaded
		if request.Context.ActionResults, err = t.decide(ctx, open); err != nil {
			return t.stopped(err)
		}
	}
	if len(questions) > 0 { // the prompt is the answer
		request.Messages = []event.InputMessage{}
		request.Context.ActionResults = append(request.Context.ActionResults, answerOf(questions[0], message.Content.Text()))
	}
	reason, err := t.requests(ctx, request)
	if err != nil {
		return t.stopped(err)
	}
	return acp.PromptResponse{StopReason: reason}, nil
}

// errCancelled says that the user has cancelled the turn.
var errCancelled = errors.New("the turn was cancelled")

// stopped is the response to a turn that has no regular end.
func (t *turn) stopped(err error) (any, error) {
	if t.isCancelled() || errors.Is(err, errCancelled) {
		return acp.PromptResponse{StopReason: acp.StopCancelled}, nil
	}
	return nil, failure(err)
}

// requests sends a request, and then the results of its actions, until a request ends without an action.
func (t *turn) requests(ctx context.Context, request event.AgentRequest) (acp.StopReason, error) {
	for {
		last, err := t.send(ctx, request)
		if err != nil || len(last.open) == 0 {
			return last.reason, err
		}
		results, err := t.decide(ctx, last.open)
		if err != nil || len(results) == 0 {
			return acp.StopEndTurn, err
		}
		request = event.AgentRequest{Messages: []event.InputMessage{}}
		request.Context.ActionResults = results
	}
}

// attach shows a request that was running when the session was loaded, and then continues as a prompt does.
func (t *turn) attach(ctx context.Context, requestID string) {
	defer t.end()
	last, err := t.follow(ctx, func(ctx context.Context, accepted func(string)) iter.Seq2[event.Event, error] {
		accepted(requestID)
		return t.session.server.Client.Follow(ctx, requestID, "", append(included(), string(event.NameInput))...)
	})
	for err == nil && len(last.open) > 0 {
		var results []event.ActionResult
		if results, err = t.decide(ctx, last.open); err != nil || len(results) == 0 {
			break
		}
		request := event.AgentRequest{Messages: []event.InputMessage{}}
		request.Context.ActionResults = results
		last, err = t.send(ctx, request)
	}
	if err != nil && !t.isCancelled() && ctx.Err() == nil {
		_ = t.session.say("error", err.Error()) // the editor may have closed the connection
	}
}

// included are the events that the editor sees in addition to the native ones.
func included() []string {
	return []string{string(event.NamePlan), string(event.NameNotice), string(event.NameFinalAnswer), string(event.NameSubagent)}
}

// send starts a request on the thread and shows its events.
func (t *turn) send(ctx context.Context, request event.AgentRequest) (ending, error) {
	if t.isCancelled() {
		return ending{}, errCancelled
	}
	s := t.session
	s.mu.Lock()
	isNew := s.isNew
	if s.model != s.server.Model {
		request.Context.Model = s.model
	}
	s.mu.Unlock()
	extra, err := jsonv2.Marshal(map[string]any{"editor": map[string]string{"folder": s.folder}})
	if err != nil {
		return ending{}, err
	}
	request.ThreadID, request.Context.Extra = s.id, event.NewMembers(extra)
	return t.follow(ctx, func(ctx context.Context, accepted func(string)) iter.Seq2[event.Event, error] {
		return s.server.Client.Stream(ctx, s.server.Agent, request, client.StreamOptions{
			Include: included(), CreateThread: isNew,
			Accepted: func(requestID, _ string) {
				s.mu.Lock()
				s.isNew = false
				s.mu.Unlock()
				accepted(requestID)
			},
		})
	})
}

// follow shows the events of a request. When the user cancels the turn, it aborts the request and shows the rest.
func (t *turn) follow(ctx context.Context, open func(context.Context, func(string)) iter.Seq2[event.Event, error]) (ending, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	accepted := make(chan string, 1)
	var watch sync.WaitGroup
	watch.Go(func() { t.abortOnCancel(ctx, accepted, cancel) })
	defer watch.Wait()
	defer cancel(nil)
	shown := updates{session: t.session}
	for e, err := range open(ctx, func(requestID string) { accepted <- requestID }) {
		if err == nil {
			err = shown.show(e.Body)
		}
		if err != nil {
			return shown.ending, errors.Join(err, shown.endCalls())
		}
	}
	if shown.failed != nil {
		return shown.ending, shown.failed
	}
	return shown.ending, nil
}

// abortOnCancel aborts the request when the user cancels the turn. If the request does not end then, it ends the stream.
func (t *turn) abortOnCancel(ctx context.Context, accepted <-chan string, quit context.CancelCauseFunc) {
	select {
	case <-t.cancelled:
	case <-ctx.Done():
		return
	}
	limit := time.NewTimer(abortTime)
	defer limit.Stop()
	select {
	case requestID := <-accepted:
		err := t.session.server.Client.Abort(ctx, requestID)
		if err != nil && apierr.CodeOf(err) != apierr.RequestFinished {
			quit(errCancelled)
			return
		}
	case <-limit.C:
		quit(errCancelled)
		return
	case <-ctx.Done():
		return
	}
	select {
	case <-limit.C:
		quit(errCancelled)
	case <-ctx.Done():
	}
}
