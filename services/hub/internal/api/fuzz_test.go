package api

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/hub/internal/registry"
	"github.com/go-json-experiment/json"
)

// FuzzBodies holds that whatever anyone sends to the hub is read, or refused as a fault of the sender.
func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"url":"http://192.168.1.100:4001","apiKey":"k","capabilities":["code"],"budgetUsd":1.5}`))
	f.Add([]byte(`{"token":"hub_1","id":"vm-1","url":"http://10.0.0.7:4001","name":"VM 1","key":"k"}`))
	f.Add([]byte(`{"agentId":"vm-1","status":"busy","currentTask":{"taskId":"task_1"},"sentAt":"2026-02-16T12:00:00Z"}`))
	f.Add([]byte(`{"agentId":"vm-1","taskId":"task_1","status":"completed","costUsd":1.23,"turnsCompleted":28}`))
	f.Add([]byte(`{"task":"build","maxTurns":1e400,"maxBudgetUsd":-1}`))
	f.Add([]byte(`{"task":"a","task":"b"}`))
	f.Add([]byte(`[null]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, into := range []any{
			new(assignment), new(registry.Candidate), new(remoteagent.Registration), new(remoteagent.Heartbeat), new(remoteagent.Completion),
		} {
			for _, options := range [][]json.Options{nil, {json.RejectUnknownMembers(true)}} {
				err := read(httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)), into, options...)
				if err != nil && (apierr.CodeOf(err) != apierr.InvalidMessageFormat || apierr.From(err).Message == "") {
					t.Errorf("%q into %T: got %v, want a fault of the sender", body, into, err)
				}
			}
		}
	})
}
