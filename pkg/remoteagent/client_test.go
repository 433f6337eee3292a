package remoteagent_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentbus/agentbus/pkg/remoteagent"
)

// silent is an agent-server that does not answer.
type silent struct{ paths []string }

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.paths = append(s.paths, r.Method+" "+r.URL.Path)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestCallsEndAtTheTimesOfTheProtocol(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		call func(context.Context, *remoteagent.Client) error
		want time.Duration
	}{
		{"a creation, and the look for its task", func(ctx context.Context, c *remoteagent.Client) error {
			_, err := c.Create(ctx, remoteagent.Assignment{Prompt: "build"}, "k-1")
			return err
		}, 30*time.Second + 10*time.Second},
		{"a status", func(ctx context.Context, c *remoteagent.Client) error {
			_, err := c.Status(ctx, "task_1")
			return err
		}, 10 * time.Second},
		{"a cancel", func(ctx context.Context, c *remoteagent.Client) error {
			_, err := c.Cancel(ctx, "task_1")
			return err
		}, 10 * time.Second},
		{"a check of the health", func(ctx context.Context, c *remoteagent.Client) error {
			_, err := c.Health(ctx)
			return err
		}, 10 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := &silent{}
				client := remoteagent.NewClient("http://agent", "key")
				client.HTTP = &http.Client{Transport: server}
				begun := time.Now()
				if err := test.call(t.Context(), client); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want that no answer came in time", err)
				}
				if took := time.Since(begun); took != test.want {
					t.Errorf("got an error after %s, want %s; calls: %q", took, test.want, server.paths)
				}
			})
		})
	}
}
