package hubapi

import (
	"context"
	"errors"

	"github.com/agentbus/agentbus/pkg/apierr"
)

// ErrSilent reports that the hub could not answer: it is unreachable, its database is unreachable, or it does not have
// the answer yet. The call may be repeated.
var ErrSilent = errors.New("the hub does not answer")

// Asker sends a question to a service and decodes its answer. A *bus.Bus is one.
type Asker interface {
	Ask(ctx context.Context, service, verb string, question, answer any) error
}

// Client asks the hub over the bus. It is safe for concurrent use.
type Client struct{ bus Asker }

var _ Door = Client{}

// NewClient returns a client that asks over bus.
func NewClient(bus Asker) Client { return Client{bus} }

// AssignTask implements [Door].
func (c Client) AssignTask(ctx context.Context, a Assignment) (Task, error) {
	return ask[Task](ctx, c.bus, Service, VerbAssignTask, a)
}

// CheckStatus implements [Door].
func (c Client) CheckStatus(ctx context.Context, r TaskRef) (Task, error) {
	return ask[Task](ctx, c.bus, Service, VerbCheckStatus, r)
}

// GetResult implements [Door].
func (c Client) GetResult(ctx context.Context, r TaskRef) (Task, error) {
	return ask[Task](ctx, c.bus, Service, VerbGetResult, r)
}

// CancelTask implements [Door].
func (c Client) CancelTask(ctx context.Context, r TaskRef) (Cancelled, error) {
	return ask[Cancelled](ctx, c.bus, Service, VerbCancelTask, r)
}

// AnswerTask implements [Door].
func (c Client) AnswerTask(ctx context.Context, a Answer) (Task, error) {
	return ask[Task](ctx, c.bus, Service, VerbAnswerTask, a)
}

// ListAgents implements [Door].
func (c Client) ListAgents(ctx context.Context, q AgentsQuery) (AgentList, error) {
	return ask[AgentList](ctx, c.bus, Service, VerbListAgents, q)
}

// Connect returns how to speak with an agent, or apierr.AgentNotFound.
func (c Client) Connect(ctx context.Context, r AgentRef) (Connection, error) {
	return ask[Connection](ctx, c.bus, Service, VerbConnect, r)
}

// Follow waits for something new of a task.
func (c Client) Follow(ctx context.Context, q FollowQuery) (Progress, error) {
	return ask[Progress](ctx, c.bus, FollowService, VerbFollow, q)
}

func ask[A any](ctx context.Context, bus Asker, service, verb string, question any) (A, error) {
	var answer A
	err := bus.Ask(ctx, service, verb, question, &answer)
	f, ok := errors.AsType[*apierr.Error](err)
	if !ok || f.Code != apierr.Unavailable {
		return answer, err
	}
	// A fault that came from the other side has left its cause there. One that says when to come back is about the
	// hub, any other about an agent.
	if f.Unwrap() != nil || f.RetryAfter > 0 {
		err = errors.Join(ErrSilent, err)
	}
	return answer, err
}
