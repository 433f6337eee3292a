package eventstream_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

var delta = eventstream.Event{
	ID: "01j-17", Type: "assistant_streaming_message", Time: example.Time, SessionID: "s1",
	Data: json.RawMessage(`{"content":" research","isComplete":false,"messageId":"msg_1748329963755_c90x1ktc"}`),
}

func BenchmarkSend(b *testing.B) {
	for _, subscribers := range []int{0, 1, 10} {
		b.Run(fmt.Sprint(subscribers, " subscribers"), func(b *testing.B) {
			p := eventstream.New(eventstream.Options{})
			defer p.Dispose()
			for range subscribers {
				p.On("*", func(eventstream.Event) {})
			}
			b.ReportAllocs()
			for b.Loop() {
				send(b, p, delta)
			}
			drain(b, p)
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for name, form := range map[string]eventstream.Form{"flat": eventstream.Flat, "nested": eventstream.Nested} {
		b.Run(name, func(b *testing.B) {
			line := make([]byte, 0, 1024)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if line, err = form.Append(line[:0], delta); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEvents(b *testing.B) {
	p := eventstream.New(eventstream.Options{InitialEvents: make([]eventstream.Event, 1000)})
	b.ReportAllocs()
	for b.Loop() {
		if got := p.Last(10, eventstream.Filter{}); len(got) != 10 {
			b.Fatal(len(got))
		}
	}
}
