package service

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/agentbus/agentbus/pkg/retry"
)

// The pauses between attempts to reach a dependency, and the time between two lines in the log about it.
const (
	firstPause  = 100 * time.Millisecond
	longestWait = 2 * time.Second
	sayEvery    = 15 * time.Second
)

// waitKey is where the context of a build has the readiness of its process.
type waitKey struct{}

// Await calls try until it succeeds: for what a process needs at its start and may come later, such as a database. The
// context is that of [Run]'s build. Meanwhile /readyz and the log say what the process waits for and why. It returns the
// error of try when that is final, nothing that waiting could change, and ctx's error when ctx is done.
func Await(ctx context.Context, log *slog.Logger, what string, try func(context.Context) error, final func(error) bool) error {
	state, _ := ctx.Value(waitKey{}).(*readiness)
	if state == nil {
		state = &readiness{} // not under Run
	}
	defer state.waiting.Store(nil)
	var logged time.Time
	policy := retry.Policy{First: firstPause, Longest: longestWait, Final: final, Failed: func(err error, _ time.Duration) {
		reason := what + ": " + err.Error()
		state.waiting.Store(&reason)
		if time.Since(logged) >= sayEvery {
			log.WarnContext(ctx, "waiting for a dependency", "dependency", what, "error", err)
			logged = time.Now()
		}
	}}
	err := policy.Do(ctx, try)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("wait for %s: %w", what, ctx.Err())
	}
	return err
}
