package eventstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/agentbus/agentbus/pkg/eventschema"
	"github.com/agentbus/agentbus/pkg/tarko/eventstream"
)

// Keep events, pass them to subscribers, and read them again.
func Example() {
	p := eventstream.New(eventstream.Options{SessionID: "s1"})
	defer p.Dispose()

	unsubscribe := p.On("user_message", func(e eventstream.Event) {
		var said struct {
			Content string `json:"content"`
		}
		if err := e.Decode(&said); err == nil {
			fmt.Println("the user says", said.Content)
		}
	}).Stop
	defer unsubscribe()

	if _, err := p.Emit("user_message", map[string]string{"content": "Hello, Agent TARS!"}); err != nil {
		fmt.Println(err)
		return
	}
	if err := p.Drain(context.Background()); err != nil { // handlers run in other goroutines than the sender
		fmt.Println(err)
		return
	}
	fmt.Println(len(p.Events(eventstream.Of("user_message", "assistant_message"))), "message")
	// Output:
	// the user says Hello, Agent TARS!
	// 1 message
}

// Put together what streams, by the messageId that its parts share.
func ExampleProcessor_Watch() {
	p := eventstream.New(eventstream.Options{})
	defer p.Dispose()
	parts := p.Watch(context.Background(), eventstream.Filter{Streaming: true})

	for i, part := range []string{"Starting", " research"} {
		_, err := p.Emit("assistant_streaming_message", map[string]any{"content": part, "messageId": "msg_1", "isComplete": i == 1})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	messages := map[string]string{}
	for e := range parts {
		var part struct {
			MessageID  string `json:"messageId"`
			Content    string `json:"content"`
			IsComplete bool   `json:"isComplete"`
		}
		if err := e.Decode(&part); err != nil {
			fmt.Println(err)
			return
		}
		messages[part.MessageID] += part.Content
		if part.IsComplete {
			break
		}
	}
	fmt.Println(messages["msg_1"])
	// Output: Starting research
}

// What the tools answered since the assistant spoke last; look at the error first.
func ExampleProcessor_LatestToolResults() {
	p := eventstream.New(eventstream.Options{InitialEvents: []eventstream.Event{
		{Type: "assistant_message", Data: json.RawMessage(`{"content":"I look it up."}`)},
		{Type: "tool_result", Data: json.RawMessage(`{"toolCallId":"call_1","name":"search","content":["a","b"],"elapsedMs":12}`)},
		{Type: "tool_result", Data: json.RawMessage(`{"toolCallId":"call_2","name":"read","content":"","elapsedMs":1,"error":"no such file"}`)},
	}})
	defer p.Dispose()

	for _, result := range p.LatestToolResults("") {
		if result.Error != "" {
			fmt.Println(result.Name, "failed:", result.Error)
			continue
		}
		fmt.Println(result.Name, "answered", string(result.Content))
	}
	// Output:
	// search answered ["a","b"]
	// read failed: no such file
}

// Types of an application's own, which must look as it says.
func ExampleSchemas() {
	schemas := eventstream.NewSchemas(eventstream.Flat)
	err := schemas.Add("user_feedback", json.RawMessage(`{
		"type": "object", "required": ["rating"], "properties": {"rating": {"type": "integer", "minimum": 1, "maximum": 5}}
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	p := eventstream.New(eventstream.Options{
		Schemas:  schemas,
		Protocol: eventstream.Protocol{Version: "1.0", Extensions: schemas.Types()},
	})
	defer p.Dispose()

	_, err = p.Emit("user_feedback", map[string]int{"rating": 11})
	if invalid, ok := errors.AsType[*eventschema.Invalid](err); ok {
		fmt.Println(invalid.Problems)
	}
	fmt.Println(p.Protocol().Extensions)
	// Output:
	// [/rating: maximum: got 11, want 5]
	// [user_feedback]
}

// Change what all subscribers get, and drop what none may.
func ExampleOptions_middleware() {
	hide := func(e eventstream.Event) (eventstream.Event, bool) {
		if e.Type == "debug" {
			return e, false
		}
		e.ID, e.Meta.Source = "1", "example"
		return e, true
	}
	p := eventstream.New(eventstream.Options{Middleware: []func(eventstream.Event) (eventstream.Event, bool){hide}})
	defer p.Dispose()

	err := errors.Join(p.Send(eventstream.Event{Type: "debug"}), p.Send(eventstream.Event{Type: "plan_start"}))
	if err == nil {
		err = p.Export(os.Stdout, eventstream.Nested, eventstream.Filter{})
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// [
	//   {
	//     "id": "1",
	//     "type": "plan_start",
	//     "data": {},
	//     "metadata": {
	//       "source": "example"
	//     }
	//   }
	// ]
}
