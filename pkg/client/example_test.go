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

// Start a request in the background, and follow it later, or from another program.
func ExampleClient_Start() {
	server := httptest.NewServer(background())
	defer server.Close()

	c := client.New(server.URL, "")
	started, err := c.Start(context.Background(), "demo", event.AgentRequest{Messages: []event.InputMessage{event.UserText("hello")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(started.RequestID, started.Status)
	for e := range c.Follow(context.Background(), started.RequestID, "") {
		if done, ok := e.Body.(event.Done); ok {
			fmt.Println(done.FinishReason)
		}
	}
	// Output:
	// req_1 queued
	// stop
}

// Approve the open actions of all threads, as an inbox does.
func ExampleClient_Approve() {
	server := httptest.NewServer(background())
	defer server.Close()

	c := client.New(server.URL, "")
	page, err := c.Actions(context.Background(), client.ActionsQuery{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, action := range page.Actions {
		started, err := c.Approve(context.Background(), action.RequestID, action.ActionID)
		fmt.Println(action.Payload.Tool, started.RequestID, err)
	}
	// Output:
	// calculator req_1 <nil>
}

// Follow a thread from its first request, as another screen of the same user does.
func ExampleClient_FollowThread() {
	server := httptest.NewServer(&screens{cut: whole})
	defer server.Close()

	for e, err := range client.New(server.URL, "").FollowThread(context.Background(), threadID, client.ThreadOptions{FromStart: true}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if text, ok := e.Body.(event.Text); ok {
			fmt.Println(e.RequestID, text.Delta)
		}
		if e.RequestID == "req_1" {
			break // the thread ends when it is deleted
		}
	}
	// Output:
	// req_0 0
	// req_0 1
	// req_0 2
	// req_1 0
}
