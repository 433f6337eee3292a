package mcp_test

import (
	"bytes"
	"log/slog"
	"sync"
)

// safeBuffer is a log that many write.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *safeBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }
