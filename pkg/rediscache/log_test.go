package rediscache_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/agentbus/agentbus/pkg/rediscache"
)

// lockedBuffer may be written to by the goroutines of the library.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// It is not parallel: the library has one logger for the whole process.
func TestTheLibraryTellsOfFailedDialsInOurLog(t *testing.T) {
	tests := map[string]struct {
		level slog.Level
		told  bool
	}{
		"at debug": {slog.LevelDebug, true},
		"at info":  {slog.LevelInfo, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out lockedBuffer
			rediscache.LogTo(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: test.level})))
			defer rediscache.LogTo(slog.New(slog.DiscardHandler))
			s, err := rediscache.Open("redis://127.0.0.1:1/0") // no server is at the address
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if err := s.Ping(context.WithoutCancel(t.Context())); err == nil {
				t.Fatal("got an answer")
			}
			if told := strings.Contains(out.String(), "redis library"); told != test.told {
				t.Errorf("got %q, want it logged: %t", out.String(), test.told)
			}
		})
	}
}
