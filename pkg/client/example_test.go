package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/agentbus/agentbus/pkg/apierr"
	"github.com/agentbus/agentbus/pkg/client"
	"github.com/agentbus/agentbus/pkg/event"
)

// Start a request and print its text while it arrives.
func ExampleClient_Stream() {
	server := httptest.NewServer(&gateway{log: transcript(2)}) // agentbus dev serves the same
	defer server.Close()

	c := client.New(server.URL, "")
	request := event.AgentRequest{Messages: []event.InputMessage{event.UserText("hello")}}
	for e, err := range c.Stream(context.Background(), "demo", request, client.StreamOptions{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		switch body := e.Body.(type) {
		case event.Text:
			fmt.Print(body.Delta)
		case event.Done:
			fmt.Printf("\n%s\n", body.FinishReason)
		}
	}
	// Output:
	// éworld
	// stop
}

// Follow a request that another program started, after the last event that was received.
func ExampleClient_Follow() {
	server := httptest.NewServer(&gateway{log: transcript(2)})
	defer server.Close()

	for e, err := range client.New(server.URL, "").Follow(context.Background(), "req_1", "one-6") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(e.ID, e.Body.Name())
	}
	// Output:
	// one-8 text
	// one-10 done
}

// An error of the server has a code and a message.
func ExampleClient_Request() {
	server := httptest.NewServer(nil)
	defer server.Close()

	_, err := client.New(server.URL, "").Request(context.Background(), "req_1")
	if f, ok := errors.AsType[*apierr.Error](err); ok {
		fmt.Println(f.Code, f.Retryable)
	}
	// Output:
	// route_not_found false
}
