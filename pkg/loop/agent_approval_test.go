package loop

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/agentbus/agentbus/pkg/backend"
	"github.com/agentbus/agentbus/pkg/event"
)

// A runner that takes the request over at any event announces the same action, once.
func TestAnApprovalForAnAgentAfterATakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asks := backendFunc(func(_ context.Context, _ backend.Turn, emit backend.Emit) (backend.Outcome, error) {
			return backend.Outcome{Finish: event.FinishToolCalls}, errors.Join(
				emit(backend.CallStart{Name: "deploy", Gate: backend.GateAgentApproval}),
				emit(backend.CallDelta{Args: `{"to":"prod"}`}), emit(backend.CallSignature{Signature: "i1"}))
		})
		for n := 2; ; n++ {
			th := newThread(t)
			th.backend = asks
			asked := th.say("deploy")
			if n == len(asked) {
				break
			}
			want := find[event.Continuation](asked)[0].ActionID
			th.takeover(nil, n)
			if err := th.resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			actions := find[event.Continuation](th.log.events)
			if len(actions) != 1 || actions[0].ActionID != want || len(folded(th.log.events).Waiting()) != 1 {
				t.Errorf("after %d events: got %+v", n, actions)
			}
		}
	})
}
