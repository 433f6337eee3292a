package api

import (
	"errors"
	"testing"

	"github.com/agentbus/agentbus/pkg/id"
	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// FuzzAssignment holds that a body is a task within its limits, or refused with a status that blames the client and a
// message that is not empty.
func FuzzAssignment(f *testing.F) {
	f.Add([]byte(`{"prompt":"Fix the tests","cwd":"src","maxTurns":5,"maxBudgetUsd":0.5,"permissionMode":"plan"}`))
	f.Add([]byte(`{"prompt":"Continue","sessionId":"sess_1","allowedTools":["Read"],"of_tomorrow":true}`))
	f.Add([]byte(`{"prompt":"","maxTurns":-1}`))
	f.Add([]byte(`{"prompt":"a","prompt":"b"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := decodeAssignment(body)
		if err != nil {
			refusal, ok := errors.AsType[*remoteagent.Refusal](err)
			if !ok || refusal.HTTP/100 != 4 || refusal.Message == "" {
				t.Errorf("%q: got %v, want a refusal that says what is wrong", body, err)
			}
			return
		}
		if a.Prompt == "" || a.MaxTurns < 0 || a.MaxTurns > maxTurns || len(a.AllowedTools) > maxToolNames {
			t.Errorf("%q: %+v is taken, and is out of bounds", body, a)
		}
		if !(a.MaxBudgetUSD >= 0) || a.SessionID != "" && !id.Valid(a.SessionID) || !a.Extra.IsEmpty() {
			t.Errorf("%q: %+v is taken, and should not be", body, a)
		}
	})
}

// FuzzAnswer holds that a body has results with an action and a known status, or is refused with what is wrong.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"actionResults":[{"actionId":"act_1","status":"success","result":"Oslo"}],"message":"continue"}`))
	f.Add([]byte(`{"actionResults":[{"actionId":"act_1","status":"denied","error":"no"},{"status":"success"}]}`))
	f.Add([]byte(`{"actionResults":[]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, err := decodeAnswer(body)
		if err != nil {
			if refusal, ok := errors.AsType[*remoteagent.Refusal](err); !ok || refusal.HTTP/100 != 4 || refusal.Message == "" {
				t.Errorf("%q: got %v, want a refusal that says what is wrong", body, err)
			}
			return
		}
		for _, r := range answer.ActionResults {
			if r.ActionID == "" || r.Status == "" {
				t.Errorf("%q: %+v is taken", body, answer)
			}
		}
	})
}
