package rediscache

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

// LogTo sends the messages of the Redis library to log, at level debug: by default it would print failed dials to
// stderr, and the callers of this package get these errors anyway. The library has one logger for the whole process, so
// this is for main functions, before [Open].
func LogTo(log *slog.Logger) { redis.SetLogger(libraryLog{log}) }

type libraryLog struct{ log *slog.Logger }

// Printf implements the library's interface.
func (l libraryLog) Printf(ctx context.Context, format string, args ...any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "redis library", "says", fmt.Sprintf(format, args...))
	}
}
