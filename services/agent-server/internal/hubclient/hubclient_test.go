package hubclient_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
	"github.com/agentbus/agentbus/services/agent-server/internal/hubclient"
	"github.com/agentbus/agentbus/services/agent-server/internal/store"
)

// full is a store with one task to report, whose disk is full at the first attempt to mark it as reported.
type full struct {
	tries atomic.Int64
	noted chan struct{}
}

func (*full) Fact(context.Context, string) (string, error)  { return "", nil }
func (*full) PutFact(context.Context, string, string) error { return nil }

func (f *full) Unreported(context.Context, int) ([]store.Entry, error) {
	if f.tries.Load() > 1 {
		return nil, nil
	}
	return []store.Entry{{Task: remoteagent.Task{TaskID: "task_1", Status: remoteagent.Completed}}}, nil
}

func (f *full) MarkReported(context.Context, string) error {
	if f.tries.Add(1) == 1 {
		return errors.New("the disk is full")
	}
	close(f.noted)
	return nil
}

func TestHubGetsOneReportIfTheMarkIsDelayed(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == remoteagent.PathWebhook {
			told.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer hub.Close()
	f := &full{noted: make(chan struct{})}
	u := hubclient.New(hubclient.Deps{
		Store: f, Hub: hub.URL, AgentID: "vm-1", Every: time.Hour, Log: slog.New(slog.DiscardHandler),
		Condition: func(context.Context) (remoteagent.Condition, *remoteagent.Task) { return remoteagent.Idle, nil },
		Key:       func() string { return "key" },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- u.Run(ctx) }()
	select {
	case <-f.noted:
	case <-time.After(30 * time.Second):
		t.Error("the report to the hub is not marked")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if told.Load() != 1 {
		t.Errorf("the hub got %d reports, want one", told.Load())
	}
}
