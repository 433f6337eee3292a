package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/tarko"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// An event stream of Tarko gets each event of a request once and in order, however often the connection is cut, also with a
// subscriber whose queue is short.
func TestFeedSurvivesCuts(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(int) int{
		"a whole connection": nil,
		"many short ones":    func(int) int { return 420 },
	} {
		g := &gateway{log: transcript(20), cut: cut}
		c := serve(t, g)
		p := eventstream.New(eventstream.Options{Queue: 1})
		var said strings.Builder
		p.Subscribe(eventstream.Filter{}, func(e eventstream.Event) {
			var delta tarko.AssistantMessageDelta
			if err := e.Decode(&delta); err != nil {
				t.Error(err)
			}
			said.WriteString(e.Type + " " + delta.Delta + "\n")
		})
		stream := c.Stream(t.Context(), "demo", hello, client.StreamOptions{Include: []string{client.Extended}})
		if err := errors.Join(tarko.Feed(t.Context(), p, stream, tarko.Nested), p.Drain(t.Context())); err != nil {
			t.Fatal(err)
		}
		const want = "agent_run_start \nassistant_message_start \nassistant_message_delta éééééééééé\n" +
			"assistant_message_delta world\nassistant_message \nagent_run_end \n"
		if said.String() != want || g.include[0] != client.Extended {
			t.Errorf("%s: got\n%s\nwant\n%s", name, &said, want)
		}
		p.Dispose()
	}
}

func TestFeedReturnsErrors(t *testing.T) {
	t.Parallel()
	p := eventstream.New(eventstream.Options{})
	nowhere := serve(t, http.NotFoundHandler())
	if err := tarko.Feed(t.Context(), p, nowhere.Follow(t.Context(), "req_1", ""), tarko.Flat); err == nil {
		t.Error("got no error for a request that does not exist")
	}
	p.Dispose()
	c := serve(t, &gateway{log: transcript(2)})
	err := tarko.Feed(t.Context(), p, c.Follow(t.Context(), "req_1", ""), tarko.Flat)
	if !errors.Is(err, eventstream.ErrDisposed) {
		t.Errorf("got %v, want %v", err, eventstream.ErrDisposed)
	}
}

// Pass the events of a request to handlers, as Tarko's agents do.
func Example_tarko() {
	server := httptest.NewServer(&gateway{log: transcript(2)}) // agentbus dev serves the same
	defer server.Close()

	p := eventstream.New(eventstream.Options{})
	defer p.Dispose()
	p.Subscribe(eventstream.Filter{}, eventstream.Handlers{
		"assistant_message_delta": func(e eventstream.Event) {
			var delta tarko.AssistantMessageDelta
			if err := e.Decode(&delta); err == nil {
				fmt.Print(delta.Delta)
			}
		},
		"assistant_message": func(eventstream.Event) { fmt.Println() },
	}.Handle)

	ctx := context.Background()
	stream := client.New(server.URL, "").Stream(ctx, "demo", hello, client.StreamOptions{Include: []string{client.Extended}})
	if err := tarko.Feed(ctx, p, stream, tarko.Nested); err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Drain(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: éworld
}
