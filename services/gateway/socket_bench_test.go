package gateway_test

import (
	"runtime"
	"testing"
)

// BenchmarkSocketIdle measures what a connection holds that has joined a session and waits, the client's end of it included:
// a bare TCP connection.
func BenchmarkSocketIdle(b *testing.B) {
	const many = 2000
	g := start(b)
	id := g.session()
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		routines := runtime.NumGoroutine()
		for range many {
			r := g.rough()
			r.send(wsFrame{first: whole | opText, text: `{"type":"join_session","sessionId":"` + id + `"}`})
			if _, _, err := r.next(); err != nil {
				b.Fatal(err)
			}
			r.in = nil
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/many, "B/connection")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/many, "stack-B/connection")
		b.ReportMetric(float64(runtime.NumGoroutine()-routines)/many, "goroutines/connection")
	}
}
