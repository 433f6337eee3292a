package bare_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/agentbus/agentbus/cmd/bench/internal/bare"
	"github.com/agentbus/agentbus/cmd/bench/internal/load"
)

func TestStreamHasTheShapeAskedFor(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(bare.Handler())
	t.Cleanup(server.Close)
	tests := []struct {
		name  string
		shape bare.Shape
	}{
		{"events of 320 bytes", bare.Shape{Deltas: 100, Size: 320, Last: 4000}},
		{"a terminal event longer than any buffer", bare.Shape{Deltas: 3, Size: 300, Last: 300_000}},
		{"a terminal event alone", bare.Shape{Size: 300, Last: 400}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := load.New(4 << 10)
			t.Cleanup(client.Close)
			got, err := client.Read(t.Context(), load.Request{
				Method: http.MethodGet, URL: server.URL + "/stream?" + tt.shape.Query(), Deltas: tt.shape.Deltas,
			})
			if err != nil {
				t.Fatal(err)
			}
			if got.DeltaBytes != tt.shape.Deltas*tt.shape.Size || got.Bytes != got.DeltaBytes+tt.shape.Last {
				t.Errorf("got %d bytes of deltas and %d in all, want %+v", got.DeltaBytes, got.Bytes, tt.shape)
			}
		})
	}
}

func TestStreamObeysRateAndReportsTime(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(bare.Handler())
	t.Cleanup(server.Close)
	client := load.New(4 << 10)
	t.Cleanup(client.Close)
	shape := bare.Shape{Deltas: 20, Rate: 200, Size: 300, Last: 300}
	got, err := client.Read(t.Context(), load.Request{
		Method: http.MethodGet, URL: server.URL + "/stream?" + shape.Query(), Deltas: 20, Latest: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if least := 95 * time.Millisecond; got.Whole < least {
		t.Errorf("20 events at 200 a second took %v, want at least %v", got.Whole, least)
	}
	if len(got.Latencies) != 20 {
		t.Fatalf("got %d latencies, want 20", len(got.Latencies))
	}
	for _, latency := range got.Latencies {
		if latency < 0 || latency > 10*time.Second {
			t.Errorf("an event took %v", latency)
		}
	}
}

func TestStreamRefusesInvalidShapes(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "deltas=1&size=1&last=x&rate=0", "deltas=-1&size=1&last=1&rate=0", "deltas=1&size=1&last=1&rate=-1"} {
		w := httptest.NewRecorder()
		bare.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/stream?"+query, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%q: got %d, want 400", query, w.Code)
		}
	}
}

func TestATopicPassesOnWhatIsPosted(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(bare.Handler())
	t.Cleanup(server.Close)
	client := load.New(4 << 10)
	t.Cleanup(client.Close)
	const deltas = 200 // more than may wait
	posted := make(chan error, 1)
	go func() { // ends when the reader has got everything
		for i := range deltas + 2 {
			var event []byte
			switch {
			case i < deltas:
				event = bare.AppendEvent(nil, "text", i, 300)
			case i == deltas:
				event = bare.AppendEvent(nil, "done", i, 300)
			}
			if err := client.Post(t.Context(), server.URL+"/topics/a", event); err != nil {
				posted <- err
				return
			}
		}
		posted <- nil
	}()
	got, err := client.Read(t.Context(), load.Request{Method: http.MethodGet, URL: server.URL + "/topics/a", Deltas: deltas})
	if err != nil {
		t.Fatal(err)
	}
	if err := <-posted; err != nil {
		t.Fatal(err)
	}
	if want := (deltas + 1) * 300; got.Bytes != want {
		t.Errorf("got %d bytes, want %d", got.Bytes, want)
	}
}
