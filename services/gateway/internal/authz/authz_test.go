package authz_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/auth"
	"github.com/agentbus/agentbus/pkg/bus"
	"github.com/agentbus/agentbus/pkg/bus/bustest"
	"github.com/agentbus/agentbus/pkg/event"
	"github.com/agentbus/agentbus/pkg/historyapi"
	"github.com/agentbus/agentbus/pkg/record"
	"github.com/agentbus/agentbus/services/gateway/internal/authz"
)

// past answers for history: it has one thread with one request, of alice of acme. It implements historyapi.Asker.
type past struct{}

func (past) Ask(_ context.Context, _, verb string, question, answer any) error {
	switch q := question.(type) {
	case historyapi.ThreadRef:
		if q.Tenant == "acme" && q.ThreadID == "thr_past" && verb == historyapi.VerbThread {
			*answer.(*historyapi.Thread) = historyapi.Thread{ThreadID: q.ThreadID, Owner: "alice", AgentID: "demo", Requests: 3, LastRequestID: "req_past"}
			return nil
		}
		return apierr.New(apierr.ThreadNotFound, "not stored")
	case historyapi.RequestRef:
		if q.Tenant == "acme" && q.RequestID == "req_past" {
			*answer.(*historyapi.Request) = historyapi.Request{RequestID: q.RequestID, ThreadID: "thr_past", Owner: "alice"}
			return nil
		}
	}
	return apierr.New(apierr.RequestNotFound, "not stored")
}

// guard returns a guard of a bus with two threads of alice of acme, the second of which is deleted.
func guard(t *testing.T) *authz.Guard {
	t.Helper()
	b := bustest.New(t)
	for _, name := range []string{"open", "gone"} {
		threadID, requestID := "thr_"+name, "req_"+name
		accepted := record.Accepted{Tenant: "acme", RequestID: requestID, ThreadID: threadID, AgentID: "demo", Owner: "alice", At: time.Now()}
		accepted.Request = event.AgentRequest{ThreadID: threadID, Messages: []event.InputMessage{event.UserText("hi")}}
		if _, _, err := b.Accept(t.Context(), accepted); err != nil {
			t.Fatal(err)
		}
		thread := record.Thread{ThreadID: threadID, Owner: "alice", AgentID: "demo", RequestID: requestID, At: time.Now()}
		stored, err := b.AdvanceThread(t.Context(), "acme", thread, 0)
		if err != nil {
			t.Fatal(err)
		}
		if name == "gone" {
			thread.Deleted = true
			if _, err := b.AdvanceThread(t.Context(), "acme", thread, stored.Sequence); err != nil {
				t.Fatal(err)
			}
		}
	}
	return authz.NewGuard(b, historyapi.NewClient(past{}))
}

func TestAccess(t *testing.T) {
	t.Parallel()
	g := guard(t)
	tests := []struct {
		name            string
		tenant, subject string
		suffix          string // of the ids of the thread and of its request
		thread, request apierr.Code
	}{
		{"the owner", "acme", "alice", "open", "", ""},
		{"the owner, of what only history has", "acme", "alice", "past", "", ""},
		{"the owner, after the deletion", "acme", "alice", "gone", apierr.ThreadNotFound, apierr.RequestNotFound},
		{"another owner of the tenant", "acme", "bob", "open", apierr.ThreadAccessDenied, apierr.ThreadAccessDenied},
		{"another owner, of what only history has", "acme", "bob", "past", apierr.ThreadAccessDenied, apierr.ThreadAccessDenied},
		{"another tenant with the owner's name", "globex", "alice", "open", apierr.ThreadNotFound, apierr.RequestNotFound},
		{"another tenant, of what only history has", "globex", "alice", "past", apierr.ThreadNotFound, apierr.RequestNotFound},
		{"an id that does not exist", "acme", "alice", "none", apierr.ThreadNotFound, apierr.RequestNotFound},
		{"an id that is a pattern of subjects", "acme", "alice", ">", apierr.ThreadNotFound, apierr.RequestNotFound},
	}
	for _, test := range tests {
		p := auth.Principal{Tenant: test.tenant, Subject: test.subject}
		thread, err := g.Thread(t.Context(), p, "thr_"+test.suffix)
		if code(err) != test.thread || err == nil && thread.Owner != test.subject {
			t.Errorf("%s: got the thread %+v and %v, want %q", test.name, thread, err, test.thread)
		}
		request, err := g.Request(t.Context(), p, "req_"+test.suffix)
		if code(err) != test.request || err == nil && request.ThreadID != "thr_"+test.suffix {
			t.Errorf("%s: got the request %+v and %v, want %q", test.name, request, err, test.request)
		}
		if past := test.suffix == "past"; err == nil && request.Archived != past {
			t.Errorf("%s: got that only history has it: %v, want %v", test.name, request.Archived, past)
		}
	}
}

// code is the code of an error, "" without one.
func code(err error) apierr.Code {
	if err == nil {
		return ""
	}
	return apierr.CodeOf(err)
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	denied := apierr.New(apierr.ThreadAccessDenied, "no")
	tests := []struct {
		name string
		err  error
		want apierr.Code // "" = the error itself
	}{
		{"an API error stays what it is", denied, apierr.ThreadAccessDenied},
		{"a client that leaves", context.Canceled, ""},
		{"a broker that does not answer", context.DeadlineExceeded, apierr.Unavailable},
		{"another error of the broker", errors.New("no leader"), apierr.Unavailable},
		{"a record that is too large", bus.ErrTooLarge, apierr.MessageTooLarge},
	}
	for _, test := range tests {
		got := authz.Unavailable(test.err)
		if test.want == "" && !errors.Is(got, test.err) || test.want != "" && apierr.CodeOf(got) != test.want {
			t.Errorf("%s: got %v, want %q", test.name, got, test.want)
		}
	}
}
