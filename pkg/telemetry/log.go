package telemetry

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"unicode"

	"go.opentelemetry.io/otel/trace"
)

// LogOptions say how log lines look.
type LogOptions struct {
	Service string
	Level   slog.Leveler // nil = Info
	Text    bool         // for people at a terminal; otherwise JSON
}

// NewLogger writes log lines to w. Each carries trace_id and span_id when its context has a span. What comes from
// outside cannot forge or hide a line: control characters, line separators and characters that change the direction of
// text are escaped, in messages, names and values.
func NewLogger(w io.Writer, o LogOptions) *slog.Logger {
	options := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return clean(a) }}
	var h slog.Handler = slog.NewJSONHandler(w, options)
	if o.Text {
		h = slog.NewTextHandler(w, options)
	}
	log := slog.New(handler{h})
	if o.Service != "" {
		log = log.With("service", o.Service)
	}
	return log
}

// handler adds the trace of the context to each record.
type handler struct{ slog.Handler }

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

func clean(a slog.Attr) slog.Attr {
	a.Key = Neutral(a.Key)
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Neutral(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(Neutral(err.Error()))
		}
	default: // numbers and times have no such characters; the parts of a group come by themselves
	}
	return a
}

// Neutral returns s with every character that a terminal or an editor would obey written as an escape, for example
// \x1b. Text without such characters is returned as it is. Use it wherever text from outside is shown to people.
func Neutral(s string) string {
	if strings.IndexFunc(s, obeyed) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if obeyed(r) {
			writeEscape(&b, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// obeyed reports control characters, separators of lines and paragraphs, and characters that format text unseen:
// direction, zero width, byte order marks.
func obeyed(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

func writeEscape(b *strings.Builder, r rune) {
	const hex = "0123456789abcdef"
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < 0x100:
		b.Write([]byte{'\\', 'x', hex[r>>4], hex[r&15]})
	default:
		b.WriteString(`\u{`)
		digits := false
		for shift := 20; shift >= 0; shift -= 4 {
			d := r >> shift & 15
			if digits = digits || d != 0; digits {
				b.WriteByte(hex[d])
			}
		}
		b.WriteByte('}')
	}
}
